"""Known drift, put into footage on purpose: what the meter must then read."""

# f frames  r rows  w columns  c red, green, blue
import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from chaining.colour.oklab import oklab_to_srgb, srgb_to_oklab
from chaining.drift.arrays import Float
from vidgen.errors import BadRequest

_FROM_CLIP = 4  # freeze and step begin with this clip, counted from 0


@dataclass(frozen=True, slots=True)
class Injection:
    """One kind of drift.

    meaning  what the amount does to clip k, k = 0 being untouched
    example  an amount that shows; low and high are its bounds
    apply    (frames of clip k, k, amount, randomness) -> frames
    """

    meaning: str
    example: float
    low: float
    high: float
    apply: Callable[[Float, int, float, np.random.Generator], Float]


def _gain(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return frames * np.float32(amount**k)


def _gamma(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return np.power(np.maximum(frames, 0), np.float32(amount**k))


def _offset(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return frames + np.float32(amount * k)


def _contrast(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return (frames - np.float32(0.5)) * np.float32(amount**k) + np.float32(0.5)


def _chroma(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    scale = np.array([1, amount**k, amount**k], np.float32)
    return _in_oklab(frames, lambda lab: lab * scale)


def _hue(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    angle = np.deg2rad(amount * k)
    cos, sin = np.cos(angle), np.sin(angle)
    turn = np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]], np.float32)
    return _in_oklab(frames, lambda lab: lab @ turn.T)


def _cast(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    shift = np.array([0, 0, amount * k], np.float32)
    return _in_oklab(frames, lambda lab: lab + shift)


def _in_oklab(frames: Float, change: Callable[[Float], Float]) -> Float:
    return np.clip(oklab_to_srgb(change(srgb_to_oklab(frames))), 0, 1)


def _blur(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    """Blur by a kernel whose frequency response is exactly Gaussian."""
    import cv2

    variance = amount**2 * k
    reach = 2 * int(np.ceil(4 * np.sqrt(variance))) + 16
    response = np.exp(-2 * np.pi**2 * variance * np.fft.fftfreq(2 * reach + 1) ** 2)
    kernel = np.fft.fftshift(np.fft.ifft(response).real).astype(np.float32)
    edge = cv2.BORDER_REFLECT_101
    blurred = [cv2.sepFilter2D(f, cv2.CV_32F, kernel, kernel, borderType=edge) for f in frames]
    return np.stack(blurred)


def _noise(frames: Float, k: int, amount: float, rng: np.random.Generator) -> Float:
    noise = rng.standard_normal(frames.shape, np.float32)
    return frames + noise * np.float32(amount / 255 * np.sqrt(k))


def _jpeg(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    """Write and read each frame k times, the block grid shifted each time."""
    import cv2

    options = [cv2.IMWRITE_JPEG_QUALITY, round(amount)]
    out = []
    for frame in frames:
        codes = np.rint(np.clip(frame, 0, 1) * 255).astype(np.uint8)
        for generation in range(k):
            by = (3 * generation % 8, 5 * generation % 8)
            written = cv2.imencode(".jpg", np.roll(codes, by, (0, 1)), options)[1]
            read = np.asarray(cv2.imdecode(written, cv2.IMREAD_COLOR))
            codes = np.roll(read, (-by[0], -by[1]), (0, 1))
        out.append(codes.astype(np.float32) / np.float32(255) if k else frame)
    return np.stack(out)


def _freeze(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    held = min(round(amount), len(frames) - 1)
    if k < _FROM_CLIP or held < 1:
        return frames
    frozen = frames.copy()
    frozen[-held:] = frames[-held - 1]
    return frozen


def _step(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return frames + np.float32(amount) if k >= _FROM_CLIP else frames


def _flash(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    if k == 0:
        return frames
    flashed = frames.copy()
    flashed[:3] += np.float32(amount)
    return flashed


def _speed(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    places = np.floor(np.arange(len(frames)) / amount**k + 1e-9).astype(np.int64)
    return frames[np.minimum(places, len(frames) - 1)]


def _jump(frames: Float, k: int, amount: float, _: np.random.Generator) -> Float:
    return np.roll(frames, -round(k * amount * len(frames)), axis=0)


INJECTIONS = {
    "gain": Injection("code values times amount^k", 0.97, 0.5, 2, _gain),
    "gamma": Injection("code values to the power amount^k", 1.03, 0.5, 2, _gamma),
    "offset": Injection("code values plus amount k", -0.01, -0.2, 0.2, _offset),
    "contrast": Injection("contrast about 0.5 times amount^k", 1.05, 0.5, 2, _contrast),
    "chroma": Injection("Oklab chroma times amount^k", 0.95, 0.5, 2, _chroma),
    "hue": Injection("Oklab hue plus amount k degrees", 2, -45, 45, _hue),
    "cast": Injection("Oklab b plus amount k", 0.004, -0.05, 0.05, _cast),
    "blur": Injection("Gaussian blur of sigma amount sqrt(k) pixels", 0.4, 0.01, 5, _blur),
    "noise": Injection("noise of sigma amount sqrt(k) / 255", 1.5, 0.01, 50, _noise),
    "jpeg": Injection("k JPEG generations of quality amount, shifted", 75, 1, 100, _jpeg),
    "freeze": Injection("the last amount frames stand still, from clip 4", 20, 1, 10_000, _freeze),
    "step": Injection("code values plus amount from clip 4 on", 0.04, -0.5, 0.5, _step),
    "flash": Injection("code values plus amount on the first 3 frames", 0.08, -0.5, 0.5, _flash),
    "speed": Injection("played at 1/amount^k of the speed", 1.15, 1, 3, _speed),
    "jump": Injection("content jumps by amount of a clip at each seam", 0.25, 0.01, 0.99, _jump),
}


@dataclass(frozen=True, slots=True)
class Injector:
    """A list of injections, applied in order; `parse` makes one from text."""

    parts: tuple[tuple[str, float], ...]
    seed: int = 0

    @classmethod
    def parse(cls, spec: str, *, seed: int = 0) -> "Injector":
        """Read a spec such as "gain=0.97,blur=0.3"; "none" injects nothing.

        Raises  BadRequest (unknown name, with near ones; not a number; out of bounds)
        """
        if spec.strip() in ("", "none"):
            return cls((), seed)
        return cls(tuple(_parse_part(part) for part in spec.split(",")), seed)

    def apply(self, frames_frwc: Float, k: int) -> Float:
        """Return the frames of clip k (from 0) with its drift, clipped to 0..1."""
        changed = frames_frwc
        for place, (name, amount) in enumerate(self.parts):
            rng = np.random.default_rng([self.seed, k, place])
            changed = INJECTIONS[name].apply(changed, k, amount, rng)
        return np.clip(changed, 0, 1).astype(np.float32)


def _parse_part(part: str) -> tuple[str, float]:
    name, _, text = (piece.strip() for piece in part.partition("="))
    if name not in INJECTIONS:
        near = difflib.get_close_matches(name, INJECTIONS, n=2, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use {', '.join(INJECTIONS)}."
        raise BadRequest(f"Injection {name!r} is unknown; {hint}")
    row = INJECTIONS[name]
    try:
        amount = float(text)
    except ValueError:
        raise BadRequest(
            f"{part.strip()!r} gives no number; write for example {name}={row.example:g}."
        ) from None
    if not row.low <= amount <= row.high:
        raise BadRequest(
            f"{name}={amount:g} is out of bounds; use {row.low:g} to {row.high:g}, "
            f"for example {row.example:g}."
        )
    return name, amount
