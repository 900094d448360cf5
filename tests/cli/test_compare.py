"""`vidgen compare`: what it says of the clips' making, and which file it does not write."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import PROMPT, small
from vidgen.cli.compare import _changed
from vidgen.media import VideoWriter

pytestmark = pytest.mark.usefixtures("one_thread")
SPARSE = ("--attention=topk", "--query-block=4", "--key-block=4", "--density=0.5")


def made_with(run: Any, *clips: str) -> list[str]:
    ran = run("compare", *clips, "--json")
    assert ran.code == 0, ran.out
    return [clip["made_with"] for clip in ran.last["clips"]]


def test_what_differs_is_shown_and_nothing_else(run: Any, tiny: str) -> None:
    ways = {
        "base": (),
        "layers": ("--dense-layers=0,1",),
        "top": ("--top-p=0.9",),
        "blocks": ("--query-block=8",),
        "dense": ("--attention=dense",),
    }
    for name, flags in ways.items():
        asked = SPARSE if name != "dense" else ()
        words = [
            word for word in asked if word.split("=")[0] not in {f.split("=")[0] for f in flags}
        ]
        ran = run("generate", PROMPT, *small(tiny), *words, *flags, f"--out={name}.mkv")
        assert ran.code == 0, ran.err
    layers, top, blocks, dense = made_with(run, *(f"{name}.mkv" for name in ways))
    assert layers == "sparse dense_layers=0+1"
    assert top == "sparse top_p=0.9"
    assert blocks == "sparse query_block=8"
    assert dense == "attention dense, attention_backend sdpa"
    (sparse,) = made_with(run, "dense.mkv", "base.mkv")
    assert sparse == (
        "attention topk, attention_backend cpu, sparse density=0.5 compensate=mean "
        "dense_above=0.923077"
    )


def test_budgets_that_differ_are_shown() -> None:
    before = {"density": 0.125, "budgets": "per head 1234"}
    assert _changed("sparse", before, {**before, "budgets": "uniform"}) == "sparse budgets=uniform"
    assert _changed("sparse", before, before) == ""


def test_a_clip_that_is_compared_is_not_replaced(run: Any, tiny: str, tmp_path: Path) -> None:
    for name in ("a.mkv", "b.mkv"):
        assert run("generate", PROMPT, *small(tiny), f"--out={name}").code == 0
    (tmp_path / "link.mkv").symlink_to("b.mkv")
    before = [(tmp_path / name).read_bytes() for name in ("a.mkv", "b.mkv")]
    for out in ("a.mkv", "./b.mkv", "link.mkv"):
        ran = run("compare", "a.mkv", "b.mkv", "--out", out)
        assert ran.code == 2
        assert "one of the clips that are compared" in ran.err
    assert before == [(tmp_path / name).read_bytes() for name in ("a.mkv", "b.mkv")]
    ran = run("compare", "a.mkv", "b.mkv", "--out", "both.mkv")
    assert ran.code == 0
    assert "fps" not in ran.err


@pytest.mark.parametrize("command", [("compare",), ("drift", "compare")])
def test_clips_of_other_rates_are_told(run: Any, tmp_path: Path, command: tuple[str, ...]) -> None:
    frames = np.random.default_rng(0).random((16, 32, 32, 3), dtype=np.float32)
    for name, fps in (("slow.mkv", 8), ("fast.mkv", 16)):
        where = tmp_path / name
        with VideoWriter(where, width=32, height=32, fps=Fraction(fps), profile="master") as writer:
            writer.write(frames)
    ran = run(*command, "fast.mkv", "slow.mkv")
    assert "fast.mkv plays at 16 fps and slow.mkv at 8; they are compared frame by" in ran.err
    assert "fps" not in run(*command, "fast.mkv", "fast.mkv").err
