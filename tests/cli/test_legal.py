"""Illegal asks over all families: adjusted, refused under strict; files agree with recipes."""

import json
import shutil
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import PROMPT
from vidgen.families import FAMILIES

MODELS = {
    "toyworld": "toyworld",
    "wan2.1-t2v": "wan2.1-t2v-1.3b",
    "wan2.1-i2v": "wan2.1-i2v-14b-480p",
    "wan2.1-flf2v": "wan2.1-flf2v-14b",
    "wan2.1-vace": "wan2.1-vace-1.3b",
    "wan2.2-t2v-a14b": "wan2.2-t2v-a14b",
    "wan2.2-i2v-a14b": "wan2.2-i2v-a14b",
    "wan2.2-ti2v": "wan2.2-ti2v-5b",
}
WIDE = {"wan2.2-ti2v"}  # multiples of 32; the others of 16
LONG = " ".join(["ball"] * 600)


@pytest.fixture
def picture(tmp_path: Path) -> str:
    """A picture of 16:9."""
    path = tmp_path / "first.png"
    Image.fromarray(np.full((90, 160, 3), 90, np.uint8)).save(path)
    return str(path)


def _words(family: str, picture: str) -> list[str]:
    words = ["--model", MODELS[family], "--device", "nvidia-h200", "--dry-run", "--json"]
    if family in ("wan2.1-i2v", "wan2.1-flf2v", "wan2.2-i2v-a14b"):
        words += ["--image", picture]
    if family == "wan2.1-flf2v":
        words += ["--last-image", picture]
    return words


# asked words, fields that must be adjusted with multiples of 16 and of 32, facts of the plan
ASKS: list[tuple[list[str], set[str], set[str], dict[str, Any]]] = [
    (["--frames", "15"], {"num_frames"}, {"num_frames"}, {"num_frames": 17}),
    (["--frames", "80"], {"num_frames"}, {"num_frames"}, {"num_frames": 81}),
    (["--size", "854x480"], {"width"}, {"width"}, {"width": 864, "export_width": 854}),
    (["--size", "1280x720"], set(), {"height"}, {"export_width": 1280, "export_height": 720}),
    (["--size", "960x540"], {"height"}, {"height"}, {"height": 544, "export_height": 540}),
    (["--seconds", "5s", "--fps", "16"], {"seconds"}, {"seconds", "fps"}, {"num_frames": 81}),
    (["--seconds", "5s", "--fps", "24"], {"seconds", "fps"}, {"seconds"}, {"num_frames": 121}),
    (["--fps", "8"], {"fps"}, {"fps"}, {"fps": "8"}),
]


def test_every_family_is_asked() -> None:
    assert set(MODELS) == {row.name for row in FAMILIES}


@pytest.mark.parametrize("family", MODELS)
def test_an_illegal_ask_is_adjusted_and_refused_under_strict(
    run: Any, picture: str, family: str
) -> None:
    base = _words(family, picture)
    for words, narrow, wide, facts in ASKS:
        ran = run("generate", PROMPT, *base, *words)
        assert ran.code == 0, (words, ran.out)
        made = ran.last["plan"]
        found = {item["field"] for item in made["adjustments"]} - {"image", "last_image"}
        expected = wide if family in WIDE else narrow
        assert found == expected, words
        assert {name: made[name] for name in facts} == facts
        assert made["seconds"] == pytest.approx(made["num_frames"] / Fraction(made["fps"]))
        multiple = 32 if family in WIDE else 16
        assert made["width"] % multiple == made["height"] % multiple == 0
        strict = run("generate", PROMPT, *base, *words, "--strict")
        if not made["adjustments"]:
            assert strict.code == 0
            continue
        assert strict.code == 2, words
        error = strict.last["error"]
        assert error["param"] in {item["field"] for item in made["adjustments"]}
        for name in expected:
            assert f"{name}: " in error["message"]


@pytest.mark.parametrize("family", MODELS)
def test_a_prompt_beyond_the_encoder_is_adjusted(run: Any, picture: str, family: str) -> None:
    base = _words(family, picture)
    made = run("generate", LONG, *base).last["plan"]
    change = next(item for item in made["adjustments"] if item["field"] == "prompt")
    limit = {row.name: row.text_length for row in FAMILIES}[family]
    assert "601 tokens" in change["asked"]
    assert change["used"] == f"the first {limit} tokens"
    strict = run("generate", LONG, *base, "--strict")
    assert (strict.code, strict.last["error"]["code"]) == (2, "bad_request")


def test_more_positions_than_the_model_has_are_refused(run: Any, tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "short"
    shutil.copytree(tiny, folder)
    config = folder / "transformer" / "config.json"
    fields = json.loads(config.read_text("utf-8")) | {"rope_max_seq_len": 64}
    config.write_text(json.dumps(fields), "utf-8")
    for words, field in ((["--frames", "401"], "num_frames"), (["--size", "2048x32"], "width")):
        ran = run("generate", PROMPT, "--model", str(folder), *words, "--dry-run", "--json")
        assert (ran.code, ran.last["error"]["param"]) == (2, field)
        assert "positions" in ran.last["error"]["message"]


@pytest.mark.parametrize(
    ("words", "size", "frames", "rate"),
    [
        (["--size", "50x34", "--frames", "6"], (50, 34), 5, Fraction(16)),
        (["--size", "45x33", "--frames", "8"], (44, 32), 9, Fraction(16)),
        (["--size", "45x33", "--frames", "5", "--format", "master"], (45, 33), 5, Fraction(16)),
        (["--size", "48x32", "--seconds", "0.5", "--fps", "24000/1001"], (48, 32), 13,
         Fraction(24000, 1001)),
        (["--size", "32x32", "--frames", "5", "--fps", "12.5"], (32, 32), 5, Fraction(25, 2)),
    ],
)  # fmt: skip
def test_a_file_has_the_size_count_and_rate_of_its_recipe(
    run: Any,
    tiny: str,
    tmp_path: Path,
    words: list[str],
    size: tuple[int, int],
    frames: int,
    rate: Fraction,
) -> None:
    file = tmp_path / ("a.mkv" if "master" in words else "a.mp4")
    ran = run("generate", PROMPT, "--model", tiny, "--steps=2", *words, "--out", file, "--json")
    assert ran.code == 0, ran.out
    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        shown = [frame.time for frame in container.decode(stream)]
        assert (stream.width, stream.height) == size
        assert stream.average_rate == rate
    assert len(shown) == frames
    steps = [Fraction(b).limit_denominator(10**6) - Fraction(a).limit_denominator(10**6)
             for a, b in pairwise(shown)]  # fmt: skip
    assert all(abs(float(step - 1 / rate)) < 0.0011 for step in steps)
    recipe = run("info", file, "--json").last["recipe"]
    made = recipe["plan"]
    assert (made["export_width"], made["export_height"]) == size
    assert (made["num_frames"], Fraction(made["fps"])) == (frames, rate)
    assert recipe["adjustments"] == ran.last["clips"][0]["adjustments"]
    if ran.last["clips"][0]["adjustments"]:
        refused = run("generate", PROMPT, "--model", tiny, *words, "--strict")
        assert refused.code == 2
