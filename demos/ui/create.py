"""Create: the form, what it says before you press, and the handlers behind it.

Each handler is one or two calls of the API; no handler waits for a clip.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr
from gradio.components import Component

from demos.ui import cards
from demos.ui.api import Api, Refused
from demos.ui.form import FILES, FIRST, MOST_CLIPS, Entry, entries, given, shown, widget
from demos.ui.gate import COOKIE, WHO
from demos.ui.upstream import Upstream
from server.states import JobState

_IDLE = "What it will become, and what it costs, is said here before you press."
# By what was put back of it.
_NOTES = {
    "whole": "The form is as you left it.",
    "files": "The form is as you left it, but pictures and other files have to be dropped again.",
}
# The form may be there before the script that wants to reach it.
_CONNECT = """const connect = () => {
  if (!window.vidgen) return setTimeout(connect, 50);
  window.vidgen.connect((message) => trigger('submit', message), () => trigger('apply'));
};
connect();"""
_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# Of what is one short call with one answer: through Gradio's queue it would be a call and a
# stream, and an answer that comes between two streams is lost.
_LIGHT: dict[str, Any] = {**_QUIET, "queue": False}
_AFRESH = "() => window.vidgen.afresh()"
# What the form holds when a button is pressed is what the server gets.
_CLICK = "(_, ...all) => [window.vidgen.clicking(all), ...all]"
_SAVE = "(edited, ...all) => [window.vidgen.saving(edited, all), ...all]"
_OTHER = (
    "Whoever was signed in when this page came no longer is, so nothing was sent; what is written "
    "here comes back when they sign in again."
)
_ANSWERED = "(done, edited, ...all) => window.vidgen.answered(done, edited, all)"
_LAST_SEED = 2**63 - 1
# States in which what a job will make can be changed, as long as it was never begun.
_CHANGED = (JobState.QUEUED, JobState.HELD, JobState.INTERRUPTED, JobState.PAUSED)


class Create:
    """The form's handlers, for one server.

    key  of whoever brings none
    """

    def __init__(self, upstream: Upstream, key: str | None) -> None:
        self.entries: dict[str, Entry] = entries()
        self._upstream = upstream
        self._key = key

    def _key_of(self, request: gr.Request) -> str | None:
        return (
            None if request.request is None else (request.request.cookies.get(COOKIE) or self._key)
        )

    def _api(self, request: gr.Request) -> Api:
        return Api(self._upstream, self._key_of(request))

    async def check(self, request: gr.Request, *values: Any) -> tuple[str, str]:
        """Say what the form would make and cost, and how to ask for it elsewhere."""
        asked = given(self.entries, values)
        keyed = self._key_of(request) is not None
        elsewhere = cards.snippets(asked, self._upstream.address, keyed=keyed)
        if "prompt" not in asked:
            return cards.idle(_IDLE), elsewhere
        count = _count(asked)
        try:
            found = await self._api(request).estimate(asked)
        except Refused as refusal:
            return cards.problem(refusal.message), elsewhere
        return cards.preflight(found, count), elsewhere

    async def generate(self, handed: str, request: gr.Request, *values: Any) -> tuple[str, str]:
        """Hand the jobs in; return a line that says so and the id of the first.

        handed  the click's key, and whose page it is: "key/sign"
        """
        click, _, who = handed.partition("/")
        if who != _signed_in(request):
            return cards.problem(_OTHER), ""
        asked = given(self.entries, values)
        if "prompt" not in asked:
            return cards.problem("Write what the clip shows first."), ""
        count = _count(asked)
        if asked.get("seed") == -1:  # drawn, as without one
            del asked["seed"]
        if count > 1 and "seed" not in asked:
            asked["seed"] = secrets.randbelow(2**31)
        seed = asked.get("seed")
        if isinstance(seed, int) and seed <= _LAST_SEED < seed + count - 1:
            many = f"seed={seed} with {count} clips passes 2^63-1; use a smaller seed."
            return cards.problem(many), ""
        made: list[str] = []
        try:
            for number in range(count):
                counted = count > 1 and isinstance(asked["seed"], int)
                seeds = {"seed": asked["seed"] + number} if counted else {}
                job = await self._api(request).create({**asked, **seeds}, f"{click}-{number}")
                made.append(job["id"])
        except Refused as refusal:
            some = f"{len(made)} of {count} are queued. " if made else ""
            return cards.problem(some + refusal.message), made[0] if made else ""
        return cards.note(f"{count} clips are queued." if count > 1 else ""), made[0]

    async def save(self, handed: str, request: gr.Request, *values: Any) -> tuple[str, str]:
        """Change in a waiting job what was changed in the form; what was emptied is taken out.

        handed  the job, whose page it is, and the changed fields: "video_1/sign/prompt,seed"
        Returns a line that says so and, if it was done, the job's id.
        """
        video, who, names = handed.split("/")
        if who != _signed_in(request):
            return cards.problem(_OTHER), ""
        asked = given(self.entries, values)
        changes = {name: asked.get(name) for name in names.split(",") if name not in ("", "n")}
        try:
            await self._api(request).change(video, changes)
        except Refused as refusal:
            return cards.problem(refusal.message), ""
        return cards.note("Saved: the waiting job was changed."), video

    async def go_on(self, video: str, said: str, request: gr.Request) -> tuple[Any, ...]:
        """Go on changing a job, if there was one when the page was left and it still waits.

        said  what is said already
        """
        if not video:
            return gr.skip(), gr.skip(), gr.skip()
        try:
            job = await self._api(request).video(video)
        except Refused as refusal:
            if refusal.code != "not_found":  # the server is away, or the like: Save asks it again
                return said + cards.problem(refusal.message), video, _saving(video)
            job = None
        if job is not None and job["started_at"] is None and job["state"] in _CHANGED:
            return said + cards.note("Save changes the waiting job."), video, _saving(video)
        now = "is gone" if job is None else f"does not wait any more ({job['state']})"
        lost = f"The job that was being changed {now}; Generate makes a new one of what is here."
        return said + cards.problem(lost), "", _saving("")

    async def told(self, request: gr.Request, event: gr.EventData) -> tuple[Any, ...]:
        """Do what another page asks of the form: show a job, a recipe or some fields.

        Returns what to say, the message's turn if it was done, the job that Save changes, the
        button, and the values.
        """
        message: Mapping[str, Any] = event._data or {}
        try:
            asked, said = await self._asked(self._api(request), message)
        except Refused as refusal:
            unchanged = [gr.skip() for _ in ("edited", "save", *self.entries)]
            return cards.problem(refusal.message), "", *unchanged
        edited = str(message.get("video", "")) if message.get("action") == "edit" else ""
        turn = str(message.get("turn", ""))
        return cards.note(said), turn, edited, _saving(edited), *shown(self.entries, asked)

    async def _asked(self, api: Api, message: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        if message.get("action") == "recipe":
            found = await api.recipe(str(message.get("upload", "")))
            return _without_files(found["request"], str(message.get("name", "the file")))
        if message.get("action") in ("reuse", "edit"):
            job = await api.video(str(message.get("video", "")))
            if job["kind"] == "chain" or job["request"] is None:
                raise Refused("That job is no single clip whose settings are kept.")
            editing = message["action"] == "edit"
            said = "Change what you like, then Save." if editing else "These are its settings."
            return dict(job["request"]), said
        fields = message.get("fields")
        return dict(fields) if isinstance(fields, Mapping) else {}, str(message.get("said", ""))


def _count(asked: dict[str, Any]) -> int:
    """Take the number of clips out of a request, which a job has one of.

    What is no such number stays, so that the server refuses it.
    """
    found = asked.get("n", 1)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if not (isinstance(found, int) and 1 <= found <= MOST_CLIPS):
        return 1
    asked.pop("n", None)
    return found


def _signed_in(request: gr.Request) -> str:
    """Return the sign of who is signed in now, empty for nobody."""
    return "" if request.request is None else request.request.cookies.get(WHO, "")


def _saving(video: str) -> Any:
    return gr.update(visible=bool(video))


def _without_files(request: Mapping[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Return a recipe's request without files of the machine that made it, and what to say."""
    lost = [field for field in FILES if request.get(field)]
    kept = {name: value for name, value in request.items() if name not in (*lost, "n")}
    said = f"The recipe of {name} is in the form."
    if lost:
        said += f" Drop its {', '.join(lost)} again: a recipe names files and does not hold them."
    return kept, said


def build(create: Create) -> None:
    """Lay the page out: the form at the left, the live card at the right."""
    with gr.Row(equal_height=False, elem_classes=["vg-columns"]):
        with gr.Column(scale=6, min_width=320, elem_id="create-form"):
            fields = _fields(create.entries)
            _wire(create, fields)
        with gr.Column(scale=5, min_width=320, elem_id="create-live"):
            cards.html("<vidgen-live></vidgen-live>")
            cards.html("<vidgen-starters></vidgen-starters>")


def _fields(found: Mapping[str, Entry]) -> dict[str, Component]:
    made: dict[str, Component] = {}
    for name in ("prompt", "negative_prompt"):
        made[name] = widget(found[name])
    with gr.Row(elem_classes=["vg-drops"]):
        for name in ("image", "last_image"):
            with gr.Column(min_width=140):
                made[name] = widget(found[name])
                cards.html(
                    f'<vidgen-drop field="{name}" label="{found[name].label}"></vidgen-drop>'
                )
    with gr.Row():
        made["model"], made["preset"] = widget(found["model"]), widget(found["preset"])
    made["aspect"] = widget(found["aspect"])
    with gr.Row(elem_classes=["vg-numbers"]):
        for name in ("seconds", "seed", "n"):
            made[name] = widget(found[name])
    cards.html("<vidgen-seed></vidgen-seed>", elem_id="seed-lock")
    with gr.Accordion("Advanced", open=False, elem_id="advanced"):
        rest = [entry for name, entry in found.items() if name not in FIRST]
        for group in dict.fromkeys(entry.group for entry in rest):
            members = [entry for entry in rest if entry.group == group]
            fold = gr.Accordion(group.capitalize(), open=False, elem_id=f"group-{group}")
            with fold, gr.Row(elem_classes=["vg-grid"]):
                made |= {entry.name: widget(entry) for entry in members}
    return made


def _wire(create: Create, fields: Mapping[str, Any]) -> None:
    ordered = [fields[name] for name in create.entries]
    card = cards.html(cards.idle(_IDLE))
    said = cards.html("", elem_id="create-said")
    with gr.Row(elem_classes=["vg-actions"]):
        go = gr.Button("Generate", variant="primary", elem_id="generate", scale=3)
        save = gr.Button("Save", visible=False, elem_id="save", scale=1, min_width=90)
        gr.Button("Start afresh", elem_id="afresh", scale=1, min_width=110).click(
            None, None, None, js=_AFRESH, **_QUIET
        )
    with gr.Accordion("Copy as CLI / curl / Python", open=False, elem_id="copy-as"):
        code = cards.html(cards.snippets({}, "", keyed=False))
    click, made, edited, saved = (
        gr.Textbox("", visible="hidden", label=name) for name in ("Click", "Job", "Edited", "Saved")
    )
    gr.on([item.change for item in ordered], create.check, ordered, [card, code],
          trigger_mode="always_last", **_LIGHT)  # fmt: skip
    go.click(
        create.generate, [click, *ordered], [said, made], js=_CLICK, trigger_mode="once", **_LIGHT
    ).success(None, [made], None, js="(id) => window.vidgen.made(id)", **_QUIET)
    save.click(
        create.save, [edited, *ordered], [said, saved], js=_SAVE, trigger_mode="once", **_LIGHT
    ).success(None, [saved], None, js="(id) => window.vidgen.saved(id)", **_QUIET)
    _reach(create, ordered, said, edited, save)


def _reach(
    create: Create, widgets: Sequence[Any], said: Component, edited: Component, save: Component
) -> None:
    """Let other pages reach the form; have the browser keep what is typed, and fill a new page.

    widgets  in the order of the entries
    """
    bridge = gr.HTML("", elem_id="bridge", visible="hidden", js_on_load=_CONNECT)
    done = gr.Textbox("", visible="hidden", label="Done")
    bridge.submit(
        create.told, None, [said, done, edited, save, *widgets], trigger_mode="multiple", **_LIGHT
    ).then(None, [done, edited, *widgets], None, js=_ANSWERED, **_QUIET)
    gr.on([item.change for item in widgets], None, widgets, None,
          js="(...values) => window.vidgen?.keep(values)", **_QUIET)  # fmt: skip
    notes = json.dumps({name: cards.note(text) for name, text in _NOTES.items()})
    # An event that Gradio never sends by itself: the bridge says when the script is there.
    restored = bridge.apply(
        None, widgets, [said, edited, *widgets],
        js=f"(...values) => window.vidgen.restore({notes}, values)", **_QUIET,
    )  # fmt: skip
    restored.then(create.go_on, [edited, said], [said, edited, save], **_LIGHT).then(
        None, [edited], None, js="(edited) => window.vidgen.filled(edited)", **_QUIET
    )
