"""Makers without a model: one that drifts by known amounts, and one that returns what it is given.

DriftyMaker draws a moving texture in the look of its condition and then changes that look by a
known gain, chroma, blur and noise a clip; its condition passes through a stand-in for a VAE's round
trip. All of it is relative to the condition's own state, as a model's drift is.
"""

# f frames  r rows  w columns  c channels
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from chaining.capabilities import Capability
from chaining.colour.oklab import oklab_to_srgb, srgb_to_oklab
from chaining.lengths import Lengths
from chaining.maker import Ask, Made
from vidgen.events import Callback, CancelToken, Progress

Float = npt.NDArray[np.float32]
SIDE = 48


@dataclass
class Maker:
    """What both makers share; counts its calls, and may raise in the middle of one.

    fail_at  number of the call that raises; stop_at: of the call that cancels itself
    """

    clip_frames: int = 9
    capabilities: frozenset[Capability] = frozenset(Capability)
    fps: Fraction = Fraction(16)
    size: tuple[int, int] = (SIDE, SIDE)
    export_size: tuple[int, int] = (SIDE, SIDE)
    asks: list[Ask] = field(default_factory=list)
    fail_at: int = -1
    stop_at: int = -1

    @property
    def lengths(self) -> Lengths:
        return Lengths(4, self.clip_frames, 81)

    @property
    def identity(self) -> dict[str, Any]:
        return {"model": type(self).__name__, "num_frames": self.clip_frames}

    @property
    def calls(self) -> int:
        return len(self.asks)

    def picture(self, path: str) -> Float:
        return still(int(hashlib.sha256(path.encode()).hexdigest()[:6], 16))

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        self.asks.append(ask)
        if self.calls - 1 == self.fail_at:
            raise RuntimeError("the model broke")
        if on is not None:
            on(Progress("denoise", 1, 2, 0.0, 1.0))
        if cancel is not None:
            if self.calls - 1 == self.stop_at:
                cancel.cancel()
            cancel.check("while denoising")
        frames_frwc, latents_ctrw = self.draw(ask)
        return Made(frames_frwc, latents_ctrw, {"seed": ask.seed}, 1.0)

    def draw(self, ask: Ask) -> tuple[Float, Float | None]:
        raise NotImplementedError


def still(seed: int) -> Float:
    """A smooth, colourful picture that keeps away from black and white."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((6, 6, 3)).astype(np.float32)
    smooth = cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    return np.clip(0.3 + 0.35 * smooth, 0.02, 0.9).astype(np.float32)


def given(ask: Ask) -> Float | None:
    """The last frame of what a clip begins with."""
    if ask.prefix_frwc is not None:
        return ask.prefix_frwc[-1]
    return ask.image_rwc


class IdentityMaker(Maker):
    """Repeats the frame that it is given; a first clip shows the same picture throughout."""

    def draw(self, ask: Ask) -> tuple[Float, Float | None]:
        frame_rwc = given(ask)
        frame_rwc = still(0) if frame_rwc is None else frame_rwc
        return np.repeat(frame_rwc[None], ask.num_frames, axis=0), None


@dataclass
class DriftyMaker(Maker):
    """Each clip is its condition, drifting sideways, through a known change of look.

    gain     factor on Oklab's three channels a clip, over all of it
    noise    standard deviation of new noise, of one clip
    blur     standard deviation of a Gaussian in pixels
    vae      factor on Oklab L that every encoded picture suffers; latents do not
    pinned   a prefix comes out as it went in, and only what follows has the new look
    """

    gain: float = 1.0
    noise: float = 0.0
    blur: float = 0.0
    vae: float = 1.0
    pinned: bool = False

    def draw(self, ask: Ask) -> tuple[Float, Float | None]:
        head_rwc, skipped = self._start(ask)
        frames = [np.roll(head_rwc, i - skipped, axis=1) for i in range(ask.num_frames)]
        looked_frwc = self._look(np.stack(frames), ask.seed)
        if self.pinned and ask.prefix_frwc is not None:
            looked_frwc[: len(ask.prefix_frwc)] = ask.prefix_frwc
        latents_ctrw = np.moveaxis(looked_frwc[::4, ::8, ::8], -1, 0).copy()
        if ask.edit_latents is not None:
            latents_ctrw = ask.edit_latents(latents_ctrw)
        return looked_frwc, latents_ctrw

    def _start(self, ask: Ask) -> tuple[Float, int]:
        """The picture from which the clip moves on, and which frame shows it."""
        if ask.prefix_latents_ctrw is not None:
            assert ask.prefix_frwc is not None
            return ask.prefix_frwc[-1], len(ask.prefix_frwc) - 1
        if ask.prefix_frwc is not None:
            return self._encoded(ask.prefix_frwc[-1]), len(ask.prefix_frwc) - 1
        if ask.image_rwc is not None:
            return self._encoded(ask.image_rwc), 0
        return still(1), 0

    def _encoded(self, frame_rwc: Float) -> Float:
        return scaled(frame_rwc, self.vae)

    def _look(self, frames_frwc: Float, seed: int) -> Float:
        looked = scaled(frames_frwc, self.gain)
        if self.blur:
            looked = np.stack(
                [
                    cv2.GaussianBlur(frame, (0, 0), self.blur, borderType=cv2.BORDER_WRAP)
                    for frame in looked
                ]
            )
        if self.noise:
            rng = np.random.default_rng(seed)
            looked = looked + self.noise * rng.standard_normal(looked.shape)
        return np.clip(looked, 0, 1).astype(np.float32)


def scaled(pixels: Float, factor: float) -> Float:
    """Multiply all of Oklab by a factor: darker without a change of hue."""
    if factor == 1:
        return pixels
    return np.clip(oklab_to_srgb(srgb_to_oklab(pixels) * np.float32(factor)), 0, 1)


def lightness(frames_frwc: Float) -> float:
    """Mean Oklab L."""
    return float(srgb_to_oklab(frames_frwc)[..., 0].mean(dtype=np.float64))


Make = Callable[[], Maker]
