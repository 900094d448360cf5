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
from demos.ui.form import FILES, FIRST, Entry, entries, given, shown, widget
from demos.ui.gate import COOKIE
from demos.ui.upstream import Upstream

MOST_CLIPS = 64
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
_AFRESH = "() => window.vidgen.afresh()"
_CLICK = "(click, ...rest) => [window.vidgen.key(), ...rest]"


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

    async def generate(self, click: str, request: gr.Request, *values: Any) -> tuple[str, str]:
        """Hand the jobs in; return a line that says so and the id of the first."""
        asked = given(self.entries, values)
        if "prompt" not in asked:
            return cards.problem("Write what the clip shows first."), ""
        count = _count(asked)
        if asked.get("seed") == -1:  # drawn, as without one
            del asked["seed"]
        if count > 1 and "seed" not in asked:
            asked["seed"] = secrets.randbelow(2**31)
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

    async def save(self, video: str, request: gr.Request, *values: Any) -> str:
        """Change a waiting job to what the form says now; what was emptied is taken out."""
        asked = given(self.entries, values)
        cleared: dict[str, Any] = {
            name: None for name in self.entries if name not in asked and name != "n"
        }
        asked.pop("n", None)
        try:
            await self._api(request).change(video, cleared | asked)
        except Refused as refusal:
            return cards.problem(refusal.message)
        return cards.note("Saved: the waiting job was changed.")

    async def told(self, request: gr.Request, event: gr.EventData) -> tuple[Any, ...]:
        """Do what another page asks of the form: show a job, a recipe or some fields."""
        message: Mapping[str, Any] = event._data or {}
        try:
            asked, said = await self._asked(self._api(request), message)
        except Refused as refusal:
            return cards.problem(refusal.message), "", _saving(""), *self._unchanged()
        edited = str(message.get("video", "")) if message.get("action") == "edit" else ""
        return cards.note(said), edited, _saving(edited), *shown(self.entries, asked)

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

    def _unchanged(self) -> list[Any]:
        return [gr.skip() for _ in self.entries]


def _count(asked: dict[str, Any]) -> int:
    """Take the number of clips out of a request, which a job has one of.

    What is no such number stays, so that the server refuses it.
    """
    found = asked.get("n", 1)
    if not (isinstance(found, int) and 1 <= found <= MOST_CLIPS):
        return 1
    asked.pop("n", None)
    return found


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
    click = gr.Textbox("", visible="hidden", label="Click")
    made = gr.Textbox("", visible="hidden", label="Job")
    edited = gr.Textbox("", visible="hidden", label="Edited")
    bridge = gr.HTML(
        "",
        elem_id="bridge",
        visible="hidden",
        js_on_load=_CONNECT,
    )
    # Each is one short call with one answer: through Gradio's queue it would be a call and a
    # stream, and an answer that comes between two streams is lost.
    light: dict[str, Any] = {**_QUIET, "queue": False}
    gr.on([item.change for item in ordered], create.check, ordered, [card, code],
          trigger_mode="always_last", **light)  # fmt: skip
    go.click(
        create.generate, [click, *ordered], [said, made], js=_CLICK, trigger_mode="once", **light
    ).then(None, [made], None, js="(id) => window.vidgen.made(id)")
    save.click(create.save, [edited, *ordered], [said], **light)
    bridge.submit(
        create.told, None, [said, edited, save, *ordered], trigger_mode="multiple", **light
    )
    _remember(ordered, said, bridge)


def _remember(widgets: Sequence[Any], said: Component, bridge: gr.HTML) -> None:
    """Have the browser keep what is typed, and fill a new page's form with it.

    widgets  in the order of the entries
    """
    notes = json.dumps({name: cards.note(text) for name, text in _NOTES.items()})
    gr.on([item.change for item in widgets], None, widgets, None,
          js="(...values) => window.vidgen?.keep(values)", **_QUIET)  # fmt: skip
    # An event that Gradio never sends by itself: the bridge says when the script is there.
    bridge.apply(None, widgets, [said, *widgets],
                 js=f"(...values) => window.vidgen.restore({notes}, values)", **_QUIET).then(
        None, None, None, js="() => window.vidgen.filled()", **_QUIET
    )  # fmt: skip
