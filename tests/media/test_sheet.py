"""Contact sheets and stills."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.media.pictures import scene
from vidgen.errors import BadRequest
from vidgen.media import contact_sheet, read_image, save_image


def coloured(num_frames: int, width: int = 200, height: int = 100) -> np.ndarray:
    """Frame k is flat and has red k / (n - 1)."""
    frames = np.zeros((num_frames, height, width, 3), np.float32)
    frames[..., 0] = np.linspace(0, 1, num_frames)[:, None, None]
    return frames


def test_frames_are_spread_from_the_first_to_the_last() -> None:
    sheet = np.asarray(contact_sheet(coloured(9), columns=3))
    middle = sheet[sheet.shape[0] // 3]
    assert [int(middle[6 + 206 * i + 100][0]) for i in range(3)] == [0, 128, 255]


def test_rows_labels_and_times_are_drawn() -> None:
    clip = coloured(8)
    plain = contact_sheet(clip, columns=4)
    stamped = contact_sheet(clip, columns=4, fps=Fraction(16))
    assert plain.size == stamped.size
    assert plain.tobytes() != stamped.tobytes()
    labelled = contact_sheet([clip, clip], columns=2, rows=2, labels=["a red fox " * 99, "b"])
    assert labelled.height > 2 * plain.height
    ink = np.asarray(labelled)[:20]
    assert (ink > 200).any()  # the label is there
    assert (np.asarray(labelled)[:, -6:] < 40).all()  # and stays inside


def test_small_frames_are_enlarged_by_a_whole_factor() -> None:
    frames = scene(2, 96, 64)
    sheet = np.asarray(contact_sheet(frames, columns=2))
    cell = sheet[6 : 6 + 128, 6 : 6 + 192]
    assert np.array_equal(cell[::2, ::2], np.rint(frames[0] * 255).astype(np.uint8))
    assert contact_sheet(frames, columns=2, cell_width=64).width == 6 + 2 * 70


def test_short_clips_and_bad_asks() -> None:
    assert contact_sheet(coloured(1), columns=4).width > 0
    for ask in ({"columns": 0}, {"labels": ["a", "b"]}):
        with pytest.raises(BadRequest):
            contact_sheet(coloured(3), **ask)
    with pytest.raises(BadRequest, match="shape"):
        contact_sheet([np.zeros((4, 4, 3), np.float32)])
    with pytest.raises(BadRequest):
        contact_sheet([])


def test_stills_come_back(tmp_path: Path) -> None:
    pixels = scene(1, 48, 32)[0]
    save_image(tmp_path / "a.png", pixels)
    assert np.abs(read_image(tmp_path / "a.png").pixels_hwc - pixels).max() < 0.51 / 255
    save_image(tmp_path / "deep.png", pixels, deep=True)
    assert np.abs(read_image(tmp_path / "deep.png").pixels_hwc - pixels).max() < 0.51 / 65535
    for name in ("a.jpg", "a.webp"):
        save_image(tmp_path / "new folder" / name, pixels)
        back = read_image(tmp_path / "new folder" / name).pixels_hwc
        assert np.abs(back - pixels).mean() < 0.02
    save_image(tmp_path / "sheet.png", contact_sheet(scene(3), columns=3))
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.mode == "RGB"
    for name, options in (("a.bmp", {}), ("a.jpg", {"deep": True}), ("a.jpg", {"recipe": "{}"})):
        with pytest.raises(BadRequest):
            save_image(tmp_path / name, pixels, **options)
    assert not list(tmp_path.rglob("*.part"))
