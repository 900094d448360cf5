"""Fitting pictures: exact sizes, nothing shifted, and what is lost is said."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.media.pictures import scene
from vidgen.errors import BadRequest
from vidgen.media import describe_fit, fit_image
from vidgen.media.fit import Fit

PHOTO = scene(1, 60, 40)[0]
FITS: list[Fit] = ["crop", "letterbox", "stretch"]


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(1, 90), height=st.integers(1, 90), target_w=st.integers(1, 90),
    target_h=st.integers(1, 90), fit=st.sampled_from(FITS),
)  # fmt: skip
def test_any_size_to_any_size(
    width: int, height: int, target_w: int, target_h: int, fit: Fit
) -> None:
    grey = np.full((height, width, 3), 0.5, np.float32)
    fitted = fit_image(grey, target_w, target_h, fit)
    assert (fitted.shape, fitted.dtype) == ((target_h, target_w, 3), np.float32)
    shown = fitted[fitted.any(-1)]
    assert np.allclose(shown, 0.5, atol=1e-5)
    if fit != "letterbox":
        assert fitted.min() > 0.4
    if describe_fit(width, height, target_w, target_h, fit) is None:
        assert fitted.min() > 0.4


def test_the_same_size_comes_back_untouched() -> None:
    for fit in FITS:
        assert np.array_equal(fit_image(PHOTO, 60, 40, fit), PHOTO)
        assert describe_fit(60, 40, 60, 40, fit) is None
        assert describe_fit(1200, 800, 60, 40, fit) is None


def test_crop_keeps_the_centre_and_says_what_goes() -> None:
    wide = np.zeros((20, 60, 3), np.float32)
    wide[:, 20:40] = 1
    fitted = fit_image(wide, 20, 20, "crop")
    assert fitted.min() == 1
    note = describe_fit(60, 20, 20, 20, "crop")
    assert note is not None
    assert (note.field, note.asked, note.used) == ("image", "60x20", "20x20 (crop)")
    assert "66.7 % of the picture is cut off at left and right" in note.why
    tall = describe_fit(20, 60, 20, 20, "crop")
    assert tall is not None
    assert "top and bottom" in tall.why


def test_letterbox_shows_all_between_black_bars() -> None:
    fitted = fit_image(np.ones((20, 60, 3), np.float32), 30, 20, "letterbox")
    assert fitted[:, :, 0].sum(1).tolist() == [0] * 5 + [30] * 10 + [0] * 5
    note = describe_fit(60, 20, 30, 20, "letterbox")
    assert note is not None
    assert "50.0 % of the frame is black bars at top and bottom" in note.why


def test_stretch_names_the_distortion() -> None:
    note = describe_fit(60, 20, 20, 20, "stretch")
    assert note is not None
    assert "0.333 times as wide" in note.why


def test_scaling_is_lanczos_without_shift_or_overshoot() -> None:
    small = fit_image(PHOTO, 30, 20, "crop")
    pillow = Image.fromarray(np.rint(PHOTO * 255).astype(np.uint8)).resize(
        (30, 20), Image.Resampling.LANCZOS
    )
    assert np.abs(255 * small - np.asarray(pillow, np.float32)).max() < 1.6
    edge = np.zeros((8, 8, 3), np.float32)
    edge[:, 4:] = 1
    grown = fit_image(edge, 32, 32, "stretch")
    assert 0 <= grown.min() <= grown.max() <= 1
    assert np.abs(grown + grown[:, ::-1] - 1).max() < 1e-5


def test_refusals() -> None:
    with pytest.raises(BadRequest, match="fit='zoom' is unknown; use crop, letterbox or stretch"):
        fit_image(PHOTO, 9, 9, "zoom")  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="0x9 holds no pixels"):
        fit_image(PHOTO, 0, 9, "crop")
