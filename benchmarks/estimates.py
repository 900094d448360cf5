"""Published timings beside what `vidgen.estimate` predicts for the same setting.

Run:  python -m benchmarks.estimates
It prints the table and writes out/estimates.json. The timings are other people's
claims, with their source. No constant is fitted to a row, but the device table was chosen with
most of these points in sight: the error is an in-sample one.
"""

import argparse
import dataclasses
import json
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attention import Grid
from benchmarks.report import OUT, report, write_report
from vidgen import estimate
from vidgen.device import DeviceProfile, named
from vidgen.models import resolve
from vidgen.workload import Workload

Kind = Literal["eager", "compiled"]
Scope = Literal["step", "denoise", "total"]

# Sustained Tflop/s of what Vidgen does not do yet: (sage attention, fp8 products).
FLASH_2_ON_HOPPER = 350.0  # exact attention by FlashAttention 2, the same note
FAST: dict[str, tuple[float, float]] = {
    "nvidia-h100": (780, 1000),
    "nvidia-h200": (780 * 1.05, 1000 * 1.05),
    "nvidia-rtx-4090": (260, 290),
    "nvidia-rtx-4090d": (260, 290),
    "nvidia-rtx-5090": (420, 390),
}


@dataclass(frozen=True, slots=True)
class Timing:
    """One published timing.

    seconds   as published, for the scope: one guided step, all steps, or all of a clip
    steps     denoising steps
    guided    two forwards a step
    kind      eager: elementwise work unfused; compiled: fused by torch.compile or own kernels
    flash_2   attention by torch's SDPA of 2025, FlashAttention 2, on a Hopper GPU
    sage      8-bit attention;  fp8: 8-bit products;  streamed: weights offloaded block by block
    vae_16    the VAE runs in 16 bits
    doubt     why the row may not be what the model assumes
    """

    what: str
    device: str
    model: str
    width: int
    height: int
    frames: int
    steps: int
    seconds: float
    scope: Scope
    source: str
    guided: bool = True
    kind: Kind = "eager"
    flash_2: bool = False
    sage: bool = False
    fp8: bool = False
    streamed: bool = False
    vae_16: bool = False
    doubt: str = ""


_LIGHT = "LightX2V README, H100 and 4090D tables, 2025-12"
_BENCH = "LightX2V docs/EN benchmark_source"
_TURBO = "TurboDiffusion README, baseline column, DiT only"
_480, _720 = (832, 480, 81), (1280, 720, 81)
_I480, _I720 = "wan2.1-i2v-14b-480p", "wan2.1-i2v-14b-720p"
_SMALL, _LARGE = "wan2.1-t2v-1.3b", "wan2.1-t2v-14b"
_H100, _H200, _A800 = "nvidia-h100", "nvidia-h200", "nvidia-a800-80gb"
_4090, _4090D, _5090 = "nvidia-rtx-4090", "nvidia-rtx-4090d", "nvidia-rtx-5090"
_GUESS = "the source leaves the setting open; assumed"

TIMINGS: tuple[Timing, ...] = (
    Timing("VSA's dense 1.3B", _H100, _SMALL, 832, 448, 61, 50, 31, "denoise",
           "VSA paper 2505.13389 (FA3 and compile)", kind="compiled"),
    Timing("VSA's dense 14B", _H100, _LARGE, 1280, 768, 77, 50, 1274, "denoise",
           "VSA paper 2505.13389", kind="compiled", doubt=f"{_GUESS} (77x768x1280)"),
    Timing("SGLang 1.3B", _H100, _SMALL, *_480, 50, 47.8, "total",
           "SGLang deployment_cookbook", kind="compiled", doubt="GPU not stated"),
    Timing("LightX2V 1.3B", _H100, _SMALL, *_480, 50, 58, "total",
           "LightX2V's published comparison", doubt=f"{_GUESS}: eager, exact attention"),
    Timing("diffusers", _H100, _I480, *_480, 40, 9.77, "step", _LIGHT, flash_2=True),
    Timing("xDiT", _H100, _I480, *_480, 40, 8.93, "step", _LIGHT, flash_2=True),
    Timing("FastVideo", _H100, _I480, *_480, 40, 7.35, "step", _LIGHT),
    Timing("SGLang", _H100, _I480, *_480, 40, 6.13, "step", _LIGHT, kind="compiled"),
    Timing("LightX2V", _H100, _I480, *_480, 40, 5.18, "step", _LIGHT, kind="compiled", sage=True),
    Timing("Wan official", _H200, _I480, *_480, 40, 366, "total", _BENCH),
    Timing("LightX2V bf16, sage", _H200, _I480, *_480, 40, 216, "total", _BENCH, sage=True,
           kind="compiled"),
    Timing("LightX2V fp8, sage", _H200, _I480, *_480, 40, 191, "total", _BENCH, sage=True,
           fp8=True, kind="compiled"),
    Timing("LightX2V 4 steps", _H200, _I480, *_480, 4, 14, "total", _BENCH, guided=False,
           sage=True, fp8=True, kind="compiled", vae_16=True),
    Timing("Wan official", _H200, _I720, *_720, 40, 974, "total", _BENCH),
    Timing("LightX2V bf16, sage", _H200, _I720, *_720, 40, 751, "total", _BENCH, sage=True,
           kind="compiled"),
    Timing("LightX2V fp8, sage", _H200, _I720, *_720, 40, 671, "total", _BENCH, sage=True,
           fp8=True, kind="compiled"),
    Timing("LightX2V 4 steps", _H200, _I720, *_720, 4, 44, "total", _BENCH, guided=False,
           sage=True, fp8=True, kind="compiled", vae_16=True),
    Timing("diffusers", _4090D, _I480, *_480, 40, 30.5, "step", _LIGHT, streamed=True),
    Timing("LightX2V", _4090D, _I480, *_480, 40, 20.26, "step", _LIGHT, sage=True,
           streamed=True, kind="compiled"),
    Timing("LightX2V fp8, offload", _4090, _I480, *_480, 40, 630, "total", _BENCH, sage=True,
           fp8=True, streamed=True, kind="compiled"),
    Timing("LightX2V fp8, offload, 4 steps", _4090, _I480, *_480, 4, 63, "total", _BENCH,
           guided=False, sage=True, fp8=True, streamed=True, kind="compiled", vae_16=True),
    Timing("EasyCache's baseline", _A800, _SMALL, *_480, 50, 175.4, "denoise", "EasyCache README"),
    Timing("MagCache's baseline 1.3B", _A800, _SMALL, *_480, 50, 189, "denoise",
           "MagCache README", doubt=f"{_GUESS}: A800"),
    Timing("MagCache's baseline 14B", _A800, _LARGE, *_720, 50, 3604, "denoise",
           "MagCache README", doubt=f"{_GUESS}: A800"),
    Timing("FastVideo, eager", "nvidia-a100-80gb", _SMALL, *_480, 50, 4.91, "step",
           "FastVideo docs, inference/optimizations", doubt=f"{_GUESS}: 81 frames"),
    Timing("FastVideo, compiled", "nvidia-a100-80gb", _SMALL, *_480, 50, 3.78, "step",
           "FastVideo docs, inference/optimizations", kind="compiled",
           doubt=f"{_GUESS}: 81 frames"),
    Timing("Wan official 5B", _4090, "wan2.2-ti2v-5b", 1280, 704, 121, 50, 540, "total",
           "Wan 2.2 README: under 9 minutes", streamed=True, doubt="an upper bound"),
    Timing("original 1.3B", _5090, _SMALL, *_480, 50, 184, "denoise", _TURBO),
    Timing("original 14B", _5090, _LARGE, *_480, 50, 1676, "denoise", _TURBO, streamed=True,
           doubt="surely offloads; others cannot reproduce it"),
    Timing("original 14B", _5090, _LARGE, *_720, 50, 4767, "denoise", _TURBO, streamed=True,
           doubt="others run out of memory"),
    Timing("original A14B", _5090, "wan2.2-i2v-a14b", *_720, 40, 4549, "denoise", _TURBO,
           streamed=True, doubt="step count not stated"),
)  # fmt: skip


def workload(row: Timing) -> Workload:
    """Return the work of one row."""
    model = resolve(row.model)
    family = model.family
    across, down = family.size_multiple
    image = "i2v" in row.model
    whole = (row.frames, row.height, row.width)
    return Workload(
        configs=model.configs,
        experts=family.experts,
        width=row.width,
        height=row.height,
        num_frames=row.frames,
        grid=Grid(family.latent_frames(row.frames), row.height // down, row.width // across),
        reference_frames=0,
        forwards=row.steps * (2 if row.guided else 1),
        text_encodes=2 if row.guided else 1,
        text_length=family.text_length,
        vae_encodes=(whole,) if image else (),
        image_encodes=1 if family.image_encoder else 0,
        dtype="bfloat16",
        vae_dtype="bfloat16" if row.vae_16 else "float32",
        offload="group" if row.streamed else "none",
        vae_tiling=False,
        format="mp4",
        token_times=family.token_times,
    )


def device_of(row: Timing) -> DeviceProfile:
    """Return the row's device, with the rates of the arithmetic that the row's software uses."""
    device = named(row.device)
    rates = device.rates
    sage, fp8 = FAST.get(row.device, (rates.attention, rates.linear))
    if row.flash_2:
        rates = dataclasses.replace(rates, attention=FLASH_2_ON_HOPPER)
    if row.sage:
        rates = dataclasses.replace(rates, attention=sage)
    if row.fp8:
        rates = dataclasses.replace(rates, linear=fp8)
    return dataclasses.replace(device, rates=rates)


def predict(row: Timing) -> float:
    """Return the predicted seconds of a row's scope; file and disk are not counted."""
    work, device = workload(row), device_of(row)
    passes = estimate.COMPILED_PASSES if row.kind == "compiled" else estimate.EAGER_PASSES
    denoise = estimate.denoise_seconds(work, device, passes)
    if row.scope == "step":
        return denoise / row.steps
    if row.scope == "denoise":
        return denoise
    rest = (estimate.encode_seconds, estimate.condition_seconds, estimate.decode_seconds)
    return denoise + sum(stage(work, device) for stage in rest)


def share_of_peak(row: Timing) -> float:
    """Return the published speed of the denoising as a share of the device's peak.

    More than 1 is impossible. 8-bit arithmetic has twice the peak of 16-bit.
    """
    work, device = workload(row), device_of(row)
    parts = estimate.forward_flops(work)
    at_peak = 0.0
    for name, count in parts.items():
        fast = row.sage if name == "attention" else row.fp8
        at_peak += count / (device.rates.peak * (2 if fast else 1) * 1e12)
    forwards = work.forwards / row.steps if row.scope == "step" else work.forwards
    return forwards * at_peak / row.seconds


def measure() -> list[dict[str, Any]]:
    """Return one record per published timing."""
    out = []
    for row in TIMINGS:
        predicted = predict(row)
        record: dict[str, Any] = dataclasses.asdict(row)
        record.update(
            predicted=round(predicted, 3),
            error=round(predicted / row.seconds - 1, 4),
            share_of_peak=round(share_of_peak(row), 4),
        )
        out.append(record)
    return out


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors of all rows in a few numbers."""
    sizes = [abs(record["error"]) for record in records]
    worst = max(records, key=lambda record: abs(record["error"]))
    spread = 0.25
    inside = [1 / (1 + spread) <= 1 + record["error"] <= 1 + spread for record in records]
    return {
        "rows": len(records),
        "median_error": round(statistics.median(sizes), 4),
        "within_16_percent": sum(size <= 0.16 for size in sizes),
        "published_within_interval": sum(inside),
        "worst": {key: worst[key] for key in ("what", "device", "model", "error")},
        "above_peak": [record["what"] for record in records if record["share_of_peak"] > 1],
    }


def table(records: list[dict[str, Any]]) -> str:
    """Return the records as a Markdown table."""
    lines = [
        "| published by | GPU | model | size | steps | scope | published s | model s | error "
        "| of peak |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for item in records:
        size = f"{item['width']}x{item['height']}x{item['frames']}"
        doubt = " (?)" if item["doubt"] else ""
        lines.append(
            f"| {item['what']}{doubt} | {item['device'].removeprefix('nvidia-')} | {item['model']} "
            f"| {size} | {item['steps']} | {item['scope']} | {item['seconds']:g} "
            f"| {item['predicted']:.4g} | {item['error']:+.0%} | {item['share_of_peak']:.0%} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = OUT / "estimates.json"
    parser.add_argument("--out", type=Path, default=default)
    args = parser.parse_args()
    records = measure()
    found = summary(records)
    note = "nothing is timed here, the figures are computed"
    content = report("python -m benchmarks.estimates", note=note, summary=found, rows=records)
    write_report(args.out, content)
    print(table(records))
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main()
