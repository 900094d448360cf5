"""Features on disk: they come back bit for bit, and anything else is refused in one sentence."""

import json
from pathlib import Path

import numpy as np
import pytest

from chaining.drift.features import SCHEMA, ClipFeatures
from chaining.drift.signals import read_clip
from tests.drift.footage import drawn
from vidgen.errors import BadMedia, BadRequest, NotFound


@pytest.fixture(scope="module")
def clip() -> ClipFeatures:
    labels = {"seed": 7, "strategy": "last_frame", "note": None}
    return read_clip(drawn(0, num_frames=9), fps=16, width=96, kind="cut", labels=labels)


def test_saved_features_come_back(clip: ClipFeatures, tmp_path: Path) -> None:
    clip.save(tmp_path / "clip.npz")
    back = ClipFeatures.load(tmp_path / "clip.npz")
    assert (back.kind, back.labels, back.fps) == ("cut", clip.labels, 16)
    assert (back.source_width, back.source_height, back.num_frames) == (96, 54, 9)
    for name, values in clip.scalars.items():
        assert np.array_equal(values, back.scalars[name], equal_nan=True)
    for name in ("luma_fn", "hue_fn", "spectrum_fn", "thumbs_frwc", "last_luma_rw"):
        assert np.array_equal(getattr(clip, name), getattr(back, name))


def test_features_are_small(clip: ClipFeatures, tmp_path: Path) -> None:
    clip.save(tmp_path / "clip.npz")
    assert (tmp_path / "clip.npz").stat().st_size < 9 * 16_000 + 40_000


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is not there"):
        ClipFeatures.load(tmp_path / "clip.npz")


def test_damage_is_told(clip: ClipFeatures, tmp_path: Path) -> None:
    file = tmp_path / "clip.npz"
    clip.save(file)
    whole = file.read_bytes()
    for damaged in (b"", b"hello", whole[:2000], whole[: len(whole) - 30]):
        file.write_bytes(damaged)
        with pytest.raises(BadMedia, match="damaged or holds no drift features"):
            ClipFeatures.load(file)


def test_a_flipped_byte_is_told(clip: ClipFeatures, tmp_path: Path) -> None:
    file = tmp_path / "clip.npz"
    clip.save(file)
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    file.write_bytes(bytes(whole))
    with pytest.raises(BadMedia):
        ClipFeatures.load(file)


def test_foreign_archives_are_told(clip: ClipFeatures, tmp_path: Path) -> None:
    file = tmp_path / "other.npz"
    np.savez(file, weights=np.zeros(3))
    with pytest.raises(BadMedia, match="holds no drift features"):
        ClipFeatures.load(file)
    np.savez(file, head=np.array([{"a": 1}], dtype=object))
    with pytest.raises(BadMedia, match="holds no drift features"):
        ClipFeatures.load(file)


def _rewrite(file: Path, **changed: object) -> None:
    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    head = json.loads(str(arrays["head"][()])) | changed.pop("head", {})  # type: ignore[operator]
    arrays |= changed  # type: ignore[arg-type]
    arrays["head"] = np.array(json.dumps(head))
    np.savez_compressed(file, **arrays)


def test_another_version_is_told(clip: ClipFeatures, tmp_path: Path) -> None:
    file = tmp_path / "clip.npz"
    clip.save(file)
    _rewrite(file, head={"schema": SCHEMA + 1})
    with pytest.raises(BadMedia, match=f"version {SCHEMA + 1}"):
        ClipFeatures.load(file)


def test_arrays_that_do_not_fit_are_told(clip: ClipFeatures, tmp_path: Path) -> None:
    file = tmp_path / "clip.npz"
    clip.save(file)
    _rewrite(file, hue_fn=clip.hue_fn[:-1])
    with pytest.raises(BadMedia, match="holds no drift features"):
        ClipFeatures.load(file)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match="continue, cut, anchor"):
        read_clip(drawn(0, num_frames=2), fps=16, width=96, kind="Cut")
