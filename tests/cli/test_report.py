"""The progress line: what it says of attention, for people and for programs."""

from typing import Any

import pytest

from tests.cli.conftest import PROMPT, small

pytestmark = pytest.mark.usefixtures("one_thread")


def test_progress_says_how_much_attention_read_by_whom_and_why(run: Any, tiny: str) -> None:
    asked = ("generate", PROMPT, *small(tiny), "--attention=topk", "--density=0.25",
             "--query-block=1", "--key-block=1", "--dense-steps=0")  # fmt: skip
    ran = run(*asked, "--out=a.mkv", "--json")
    steps = [line for line in ran.lines if line["event"] == "progress"]
    denoised = [line for line in steps if line["stage"] == "denoise"]
    assert [line["density"] for line in denoised] == [0.5] * 2  # one layer of three stays dense
    assert {line["attention_backend"] for line in denoised} == {"cpu"}
    assert "gathered" in denoised[0]["attention_reason"]
    assert ran.last["clips"][0]["trace"]["attention_reason"] == denoised[0]["attention_reason"]
    others = [line for line in steps if line["stage"] != "denoise"]
    assert others
    assert {line["density"] for line in others} == {None}
    said = run(*asked, "--out=b.mkv")
    (line,) = [line for line in said.err.splitlines() if "denoise 2/2" in line]
    assert line.endswith(f"attention 50.0 % by cpu ({denoised[0]['attention_reason']})")
