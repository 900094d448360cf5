"""What the form's buttons hand to the server: neither more nor less than it says."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
import pytest

from demos.ui.create import Create
from demos.ui.form import shown
from demos.ui.upstream import Inside


class Heard:
    """An API that writes down what it is asked."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.changed: dict[str, Any] = {}

    async def create(self, fields: dict[str, Any], _click: str) -> dict[str, Any]:
        self.made.append(fields)
        return {"id": f"video_{len(self.made)}"}

    async def change(self, _video: str, fields: dict[str, Any]) -> None:
        self.changed = fields


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    found = Heard()
    monkeypatch.setattr(Create, "_api", lambda _self, _request: found)
    return found


async def _nothing(*_: Any) -> None:
    return None


FORM = Create(Inside(_nothing, "http://127.0.0.1"), None)


def done(work: Coroutine[Any, Any, Any]) -> None:
    """Do it in a thread: a browser that other tests opened has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def generate(**fields: Any) -> None:
    values = shown(FORM.entries, {"prompt": "a ball", **fields})
    done(FORM.generate("click", gr.Request(), *values))


def test_clips_of_a_drawn_seed_have_seeds_in_a_row(heard: Heard) -> None:
    for seed in ({}, {"seed": -1}):
        heard.made.clear()
        generate(n=3, **seed)
        first = heard.made[0]["seed"]
        assert first >= 0
        assert [made["seed"] for made in heard.made] == [first, first + 1, first + 2]
        assert all("n" not in made for made in heard.made)


def test_what_is_no_number_of_clips_and_no_seed_goes_to_the_server(heard: Heard) -> None:
    generate(n=0)
    generate(n="x")
    generate(n=2, seed="12x")
    assert [made.get("n") for made in heard.made] == [0, "x", None, None]
    assert [made.get("seed") for made in heard.made] == [None, None, "12x", "12x"]


def test_saving_takes_out_what_was_emptied(heard: Heard) -> None:
    values = shown(FORM.entries, {"prompt": "a ball", "num_inference_steps": 8})
    done(FORM.save("video_1", gr.Request(), *values))
    assert (heard.changed["prompt"], heard.changed["num_inference_steps"]) == ("a ball", 8)
    for name in ("loras", "reference_images", "strict", "preset", "seed", "image"):
        assert heard.changed[name] is None, name
    assert "n" not in heard.changed
