"""What the form's buttons hand to the server: neither more nor less than it says."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
import pytest

from demos.ui.api import Api, Refused
from demos.ui.create import Create
from demos.ui.form import shown
from demos.ui.upstream import Inside


class Heard:
    """An API that writes down what it is asked."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.changed: dict[str, Any] = {}
        self.job: dict[str, Any] | Refused = {}

    async def create(self, fields: dict[str, Any], _click: str) -> dict[str, Any]:
        self.made.append(fields)
        return {"id": f"video_{len(self.made)}"}

    async def change(self, _video: str, fields: dict[str, Any]) -> None:
        self.changed = fields

    async def video(self, _video: str) -> dict[str, Any]:
        if isinstance(self.job, Refused):
            raise self.job
        return self.job


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    found = Heard()
    monkeypatch.setattr(Create, "_api", lambda _self, _request: found)
    return found


async def _nothing(*_: Any) -> None:
    return None


FORM = Create(Inside(_nothing, "http://127.0.0.1"), None)


def done(work: Coroutine[Any, Any, Any]) -> Any:
    """Do it in a thread: a browser that other tests opened has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def generate(**fields: Any) -> str:
    values = shown(FORM.entries, {"prompt": "a ball", **fields})
    return str(done(FORM.generate("click", gr.Request(), *values))[0])


def test_clips_of_a_drawn_seed_have_seeds_in_a_row(heard: Heard) -> None:
    for seed in ({}, {"seed": -1}):
        heard.made.clear()
        generate(n=3, **seed)
        first = heard.made[0]["seed"]
        assert first >= 0
        assert [made["seed"] for made in heard.made] == [first, first + 1, first + 2]
        assert all("n" not in made for made in heard.made)


def test_a_number_of_clips_may_be_written_as_it_likes(heard: Heard) -> None:
    generate(n="2.0", seed=3)
    assert [made["seed"] for made in heard.made] == [3, 4]


def test_what_is_no_number_of_clips_and_no_seed_goes_to_the_server(heard: Heard) -> None:
    generate(n=0)
    generate(n="x")
    generate(n=2, seed="12x")
    assert "passes 2^63-1" in generate(n=4, seed=2**63 - 2)
    assert [made.get("n") for made in heard.made] == [0, "x", None, None]
    assert [made.get("seed") for made in heard.made] == [None, None, "12x", "12x"]


def test_saving_takes_out_what_was_emptied(heard: Heard) -> None:
    values = shown(FORM.entries, {"prompt": "a ball", "num_inference_steps": 8})
    done(FORM.save("video_1//prompt,num_inference_steps,seed,n", gr.Request(), *values))
    assert heard.changed == {"prompt": "a ball", "num_inference_steps": 8, "seed": None}


def test_nothing_is_done_for_whoever_signed_in_later(heard: Heard) -> None:
    values = shown(FORM.entries, {"prompt": "a secret"})
    request = gr.Request()
    said, made = done(FORM.generate("click/sign-of-another", request, *values))
    assert "no longer is, so nothing was sent" in said
    assert (made, heard.made) == ("", [])
    said, saved = done(FORM.save("video_1/sign-of-another/prompt", request, *values))
    assert "no longer is, so nothing was sent" in said
    assert (saved, heard.changed) == ("", {})


@pytest.mark.parametrize(
    ("job", "said", "goes_on"),
    [
        ({"state": "queued", "started_at": None}, "Save changes the waiting job.", True),
        ({"state": "held", "started_at": None}, "Save changes the waiting job.", True),
        ({"state": "interrupted", "started_at": 5}, "any more (interrupted); Generate", False),
        ({"state": "assigned", "started_at": None}, "any more (assigned); Generate", False),
        ({"state": "completed", "started_at": 5}, "any more (completed); Generate", False),
        (Refused("There is none.", "not_found"), "is gone; Generate", False),
        (Refused("The server does not answer; is it running?"), "does not answer", True),
    ],
)
def test_a_job_that_was_being_changed_is_looked_at_anew(
    heard: Heard, job: dict[str, Any] | Refused, said: str, goes_on: bool
) -> None:
    heard.job = job
    told, edited, save = done(FORM.go_on("video_1", "before;", gr.Request()))
    assert told.startswith("before;")
    assert said in told
    assert (edited, save["visible"]) == ("video_1" if goes_on else "", goes_on)


def test_where_no_job_was_being_changed_nothing_is_asked_or_said(heard: Heard) -> None:
    heard.job = Refused("It was asked.")
    assert done(FORM.go_on("", "before", gr.Request())) == (gr.skip(),) * 3


def test_what_the_form_could_not_be_filled_with_changes_nothing(heard: Heard) -> None:
    heard.job = Refused("There is none.", "not_found")
    event = gr.EventData(None, {"action": "edit", "video": "video_1", "turn": "t"})
    said, turn, *rest = done(FORM.told(gr.Request(), event))
    assert ("There is none." in said, turn) == (True, "")
    assert rest == [gr.skip()] * (2 + len(FORM.entries))
    heard.job = {"state": "queued", "kind": "clip", "request": {"prompt": "a"}}
    said, turn, edited, save, *values = done(FORM.told(gr.Request(), event))
    assert (turn, edited, save["visible"]) == ("t", "video_1", True)
    assert values == shown(FORM.entries, {"prompt": "a"})


def test_half_of_a_character_is_told_and_not_called_an_absence() -> None:
    api = Api(Inside(_nothing, "http://127.0.0.1"), None)
    with pytest.raises(Refused, match="half of a character"):
        done(api.estimate({"prompt": "\ud83d"}))


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "9" * 5000, "-" + "9" * 5000])
def test_what_is_no_number_for_json_stays_a_text(heard: Heard, text: str) -> None:
    values = shown(FORM.entries, {"prompt": "a ball"})
    values[list(FORM.entries).index("seconds")] = text
    done(FORM.generate("click/", gr.Request(), *values))
    assert heard.made[0]["seconds"] == text
