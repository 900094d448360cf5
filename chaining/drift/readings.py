"""What one clip reads against another: tone, colour, detail and motion, with bootstrap draws."""

# b draws (row 0: the reading itself)  f frames  q quantiles  s samples  c L, a, b
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaining.drift.arrays import Array, Double
from chaining.drift.colour import colour_model, hue_turn, sliced_distance
from chaining.drift.detail import equivalent_blur
from chaining.drift.features import ClipFeatures
from chaining.drift.motion import DUPLICATE
from chaining.drift.resample import DRAWS, frame_weights, settled
from chaining.drift.timeline import Memory
from chaining.drift.tone import MODELS, fit_tone, pooled_quantiles

_FLOW_FLOOR = 0.02  # per cent of the width; less is a still picture
_SAMPLES = 4000


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """One clip against a reference.

    values        signal -> (b,); logarithms, differences or degrees, 0 where nothing changed
    aic           Akaike's criterion of each curve of tone.MODELS; the least explains best
    colour        what explains the change of colour best: none, cast, hue or chroma
    distance      Oklab distance of the means; wasserstein the same of the distributions
    similarity    structural similarity of the thumbnails to the reference's first, 0..1
    """

    values: dict[str, Double]
    aic: Double
    colour: str
    distance: float
    wasserstein: float
    similarity: float

    @property
    def tone(self) -> str:
        """The curve that explains the change of brightness best."""
        return MODELS[int(self.aic.argmin())]


@dataclass(frozen=True, slots=True, eq=False)
class _Pool:
    """Weighted sums over a clip's frames, for all draws."""

    quantiles_bq: Double
    hue_bn: Double
    spectrum_bn: Double
    means: dict[str, Double]
    samples_sc: Array


class Reader:
    """Reads clips against others, each pair once; a growing chain keeps one.

    The sums of references stay, those of other clips would fill the memory in a long chain.
    """

    def __init__(self, draws: int = DRAWS) -> None:
        """Start with nothing read; `draws` is the number of bootstrap draws."""
        self._draws = draws
        self._pools: dict[int, tuple[ClipFeatures, _Pool]] = {}
        self._readings: dict[tuple[int, int], tuple[ClipFeatures, Reading]] = {}
        self._chain: tuple[ClipFeatures, ...] = ()
        self._memory: Memory = {}

    def memory_of(self, clips: Sequence[ClipFeatures]) -> Memory:
        """Return what was read of the frames of a chain, of which these clips are all so far."""
        begun = clips[: len(self._chain)]
        if [id(clip) for clip in begun] != [id(clip) for clip in self._chain]:
            self._memory = {}
        self._chain = tuple(clips)
        return self._memory

    def read(self, clip: ClipFeatures, reference: ClipFeatures) -> Reading:
        """Read a clip against a reference, which should show content of the same kind."""
        pair = (id(clip), id(reference))
        if pair not in self._readings:
            before = self._reference(reference)
            after = before if clip is reference else _pool(clip, self._draws)
            # The clips are kept too, so that their ids stay their own.
            self._readings[pair] = (clip, _read(after, before, _similarity(clip, reference)))
        return self._readings[pair][1]

    def _reference(self, clip: ClipFeatures) -> _Pool:
        if id(clip) not in self._pools:
            self._pools[id(clip)] = (clip, _pool(clip, self._draws))
        return self._pools[id(clip)][1]


def _pool(clip: ClipFeatures, draws: int) -> _Pool:
    weights = frame_weights(clip.num_frames, draws)
    means = {name: _mean(weights, values) for name, values in clip.scalars.items()}
    duplicates = np.where(
        np.isfinite(clip.scalars["change"]), clip.scalars["change"] < DUPLICATE, np.nan
    )
    means["duplicates"] = _mean(weights, duplicates)
    pixels = clip.thumbs_frwc[settled(clip.num_frames) :].reshape(-1, 3)
    places = np.linspace(0, len(pixels) - 1, _SAMPLES).astype(np.int64)
    return _Pool(
        quantiles_bq=pooled_quantiles(weights @ clip.luma_fn.astype(np.float64)),
        hue_bn=weights @ clip.hue_fn.astype(np.float64),
        spectrum_bn=weights @ clip.spectrum_fn.astype(np.float64),
        means=means,
        samples_sc=pixels[places].astype(np.float64),
    )


def _mean(weights_bf: Double, values_f: Double) -> Double:
    """Return weighted means, leaving out frames without a value."""
    known = np.isfinite(values_f)
    share = weights_bf[:, known].sum(axis=1)
    sums = weights_bf[:, known] @ values_f[known]
    return np.where(share > 0, sums / np.maximum(share, 1e-12), np.nan)


def _read(after: _Pool, before: _Pool, similarity: float) -> Reading:
    tone = fit_tone(before.quantiles_bq, after.quantiles_bq)
    aic = tone.pop("aic")[0]
    colour = _colour(before, after)
    detail = {
        "blur": equivalent_blur(before.spectrum_bn, after.spectrum_bn),
        # A steeper curve scales the noise that is there already; that is not new noise.
        "noise": after.means["noise"] / np.exp(2 * tone["contrast"]) - before.means["noise"],
        "high_share": _log_ratio(after.means["high_share"], before.means["high_share"], 1e-6),
        "sharpness": after.means["sharpness"] - before.means["sharpness"],
        "blocks": after.means["blocks"] - before.means["blocks"],
    }
    motion = {
        "flow": _log_ratio(after.means["flow"], before.means["flow"], _FLOW_FLOOR),
        "duplicates": after.means["duplicates"] - before.means["duplicates"],
    }
    lab = [after.means[name][0] - before.means[name][0] for name in ("ok_l", "ok_a", "ok_b")]
    return Reading(
        values={
            "luma": after.means["luma"] - before.means["luma"],
            "spread": tone["contrast"] - tone["gain"],
            **tone,
            **colour,
        }
        | detail
        | motion,
        aic=aic,
        colour=colour_model(before.samples_sc, after.samples_sc, float(colour["hue"][0])),
        distance=float(np.linalg.norm(lab)),
        wasserstein=sliced_distance(before.samples_sc, after.samples_sc),
        similarity=similarity,
    )


def _colour(before: _Pool, after: _Pool) -> dict[str, Double]:
    """Read chroma, hue and cast, freed of what brightness alone does to chroma and cast."""
    new, old = after.means, before.means
    lightness = old["ok_l"] / np.maximum(new["ok_l"], 1e-6)
    absolute = _log_ratio(new["chroma"], old["chroma"], 1e-5)
    return {
        "chroma": absolute + np.log(np.maximum(lightness, 1e-6)),
        "chroma_absolute": absolute,
        "hue": hue_turn(before.hue_bn, after.hue_bn),
        "cast_a": new["ok_a"] * lightness - old["ok_a"],
        "cast_b": new["ok_b"] * lightness - old["ok_b"],
    }


def _log_ratio(after: Double, before: Double, floor: float) -> Double:
    ratio: Double = np.log((after + floor) / (before + floor))
    return ratio


def _similarity(clip: ClipFeatures, reference: ClipFeatures) -> float:
    """Return the median structural similarity of a clip's thumbnails to the reference's first."""
    if clip.thumbs_frwc.shape[1:] != reference.thumbs_frwc.shape[1:]:
        return float("nan")
    anchor = reference.thumbs_frwc[0, ..., 0].astype(np.float32)
    each = [_ssim(anchor, thumb) for thumb in clip.thumbs_frwc[..., 0].astype(np.float32)]
    return float(np.median(each))


def _ssim(one_rw: Array, two_rw: Array) -> float:
    import cv2

    def smooth(values: Array) -> Array:
        blurred: Array = cv2.blur(values, (7, 7))
        return blurred

    mean_one, mean_two = smooth(one_rw), smooth(two_rw)
    var_one, var_two = smooth(one_rw**2) - mean_one**2, smooth(two_rw**2) - mean_two**2
    covariance = smooth(one_rw * two_rw) - mean_one * mean_two
    top = (2 * mean_one * mean_two + 1e-4) * (2 * covariance + 9e-4)
    bottom = (mean_one**2 + mean_two**2 + 1e-4) * (var_one + var_two + 9e-4)
    return float((top / bottom).mean())
