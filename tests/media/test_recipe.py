"""The recipe survives what people do to files, and is found again."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.media.pictures import ffmpeg, patches
from vidgen.errors import BadMedia, BadRequest, NotFound
from vidgen.media import PROFILES, VideoWriter, read_recipe, save_image

RECIPE = json.dumps(
    {"prompt": 'ein Hund 狗 🐕; #1 = \\ "x"\nnew line', "seed": 7}, ensure_ascii=False
)
LONG = json.dumps({"prompt": "wort " * 80_000})


def clip(path: Path, recipe: str | None = RECIPE, profile: str = "mp4") -> Path:
    """A small clip with a recipe."""
    with VideoWriter(
        path, width=64, height=64, fps=Fraction(16), profile=profile, recipe=recipe, title="T"
    ) as writer:
        writer.write(patches(4, 64))
    return path


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_carries_it_word_for_word(tmp_path: Path, profile: str) -> None:
    for recipe in (RECIPE, LONG):
        path = clip(tmp_path / f"{len(recipe)}{PROFILES[profile].suffix}", recipe, profile)
        assert read_recipe(path) == recipe
    assert read_recipe(clip(tmp_path / f"no{PROFILES[profile].suffix}", None, profile)) is None


@pytest.mark.parametrize(("profile", "suffixes"), [
    ("mp4", [".mp4", ".mkv", ".mov"]), ("webm", [".webm", ".mkv"]), ("prores", [".mov", ".mkv"]),
    ("master", [".mkv"]),
])  # fmt: skip
def test_it_survives_another_programs_remux(
    tmp_path: Path, profile: str, suffixes: list[str]
) -> None:
    path = clip(tmp_path / f"a{PROFILES[profile].suffix}", profile=profile)
    for suffix in suffixes:
        ffmpeg("-i", path, "-c", "copy", tmp_path / f"b{suffix}")
        assert read_recipe(tmp_path / f"b{suffix}") == RECIPE
    ffmpeg("-i", tmp_path / f"b{suffixes[0]}", "-c", "copy", tmp_path / f"c{suffixes[0]}")
    assert read_recipe(tmp_path / f"c{suffixes[0]}") == RECIPE


def test_it_survives_added_sound_and_a_trim(tmp_path: Path) -> None:
    path = clip(tmp_path / "a.mp4")
    tone = ("-f", "lavfi", "-i", "sine=duration=0.25")
    ffmpeg("-i", path, *tone, "-c:v", "copy", "-c:a", "aac", "-shortest", tmp_path / "b.mp4")
    ffmpeg("-ss", "0.1", "-i", tmp_path / "b.mp4", "-c:v", "libx264", tmp_path / "c.mp4")
    assert read_recipe(tmp_path / "b.mp4") == read_recipe(tmp_path / "c.mp4") == RECIPE


def test_stills_carry_it_too(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).random((8, 8, 3), dtype=np.float32)
    for deep in (False, True):
        save_image(tmp_path / "a.png", pixels, recipe=RECIPE, deep=deep)
        assert read_recipe(tmp_path / "a.png") == RECIPE
        with Image.open(tmp_path / "a.png") as image:
            image.verify()
    save_image(tmp_path / "b.png", pixels)
    assert read_recipe(tmp_path / "b.png") is None
    with pytest.raises(BadRequest, match="1000000"):
        save_image(tmp_path / "c.png", pixels, recipe=json.dumps({"p": "x" * 2_000_000}))
    assert not list(tmp_path.glob("c.png*"))


def test_foreign_comments_are_no_recipes(tmp_path: Path) -> None:
    path = clip(tmp_path / "a.mp4", None)
    for comment in ("made with love", "[1, 2]", "{broken"):
        ffmpeg("-i", path, "-c", "copy", "-metadata", f"comment={comment}", tmp_path / "b.mp4")
        assert read_recipe(tmp_path / "b.mp4") is None


def test_bad_sources(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_recipe(tmp_path / "none.mp4")
    with pytest.raises(BadMedia, match="folder that Vidgen did not write"):
        read_recipe(tmp_path)
    (tmp_path / "recipe.json").write_text("[]")
    with pytest.raises(BadMedia, match="not a recipe"):
        read_recipe(tmp_path)
    (tmp_path / "a.mp4").write_bytes(b"nonsense" * 20)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nnonsense")
    for name in ("a.mp4", "a.png"):
        with pytest.raises(BadMedia):
            read_recipe(tmp_path / name)
