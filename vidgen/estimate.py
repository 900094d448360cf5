"""What a clip will cost, before it is made: work, seconds, memory and disk, from plain numbers.

Work and weights are exact; of what top-p reads, work is the middle. Seconds and bytes are intervals
from a device's rates; they hold for an engine whose weights are loaded. Formulas and constants:
docs/measuring.md. Nothing imports torch.
"""

import dataclasses
from typing import Literal

from vidgen import flops, memory, vae_flops
from vidgen.device import DeviceProfile
from vidgen.workload import BYTES, Dtype, Estimate, Interval, Workload

EAGER_PASSES = 90  # times that a block reads or writes its tokens outside of products, unfused
COMPILED_PASSES = 18
BLOCK_CALLS = 150  # tensor operations of one eager block, counted on WanTransformer3DModel
LAYER_CALLS = 15  # of one layer of the VAE
DISK_GB_S = (1.0, 8.0)  # reading the text encoder: a plain SSD; a file in the page cache
CPU_16_BIT_SPREAD = 3.0  # 16-bit products on a CPU: slower than fp32 without units for them

# Megapixels per second at which frames are encoded (2 cores; many cores), and bits per pixel of the
# file (still; restless). Rough: both depend on what the clip shows.
_FILES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    "mp4": ((15, 200), (0.02, 0.8)),
    "mp4-10": ((2, 60), (0.02, 0.7)),
    "master": ((15, 200), (4, 40)),
    "prores": ((15, 150), (2, 9)),
    "png": ((4, 60), (4, 48)),
    "webm": ((2, 40), (0.02, 0.7)),
    "gif": ((3, 60), (0.5, 8)),
}


def estimate(work: Workload, device: DeviceProfile) -> Estimate:
    """Return what a workload costs on a device."""
    counts = count_flops(work)
    seconds = _seconds(work, device, counts)
    return Estimate(
        tokens=work.tokens,
        flops=counts,
        weights_bytes=memory.weights_bytes(work),
        seconds=seconds,
        device_bytes=memory.device_bytes(work, device),
        host_bytes=memory.host_bytes(work, device),
        disk_bytes=_disk_bytes(work),
        bound=_bound(work, device),
        notes=_notes(work, device),
    )


def count_flops(work: Workload) -> dict[str, float]:
    """Return the work of a whole clip by part."""
    configs = work.configs
    forward = forward_flops(work)
    image = 0.0
    if configs.image_encoder is not None:
        image = work.image_encodes * flops.image_encoder_flops(configs.image_encoder)
    frames, rows, columns = work.latent_shape
    return {
        **{part: work.forwards * value for part, value in forward.items()},
        "text": work.text_encodes
        * flops.text_encoder_flops(configs.text_encoder, work.text_length),
        "image": image,
        "vae_encode": sum(
            vae_flops.vae_encode_flops(configs.vae, *shape) for shape in work.vae_encodes
        ),
        "vae_decode": vae_flops.vae_decode_flops(
            configs.vae, frames, rows, columns, tiled=work.vae_tiling
        ),
    }


def forward_flops(work: Workload) -> dict[str, float]:
    """Return the work of one transformer forward by part, the mean over the run's forwards."""
    image = 0
    if work.configs.image_encoder is not None:
        image = work.image_encodes * flops.image_tokens(work.configs.image_encoder)
    parts = flops.transformer_flops(
        work.configs.transformer,
        work.tokens,
        work.text_length,
        image,
        token_times=work.token_times,
    )
    return {**parts, "attention": parts["attention"] * work.attention_share}


def _share(dtype: Dtype, device: DeviceProfile) -> float:
    return device.rates.float32_share if dtype == "float32" else 1.0


def _issued(seconds: float, calls: float, device: DeviceProfile) -> float:
    """Add the time to issue operations: a GPU works while they are issued, a CPU does not."""
    issuing = calls * device.rates.call_seconds
    return seconds + issuing if device.kind == "cpu" else max(seconds, issuing)


def _products(work: Workload, device: DeviceProfile) -> float:
    """Seconds of one forward in matrix products and attention."""
    rates, share = device.rates, _share(work.dtype, device)
    parts = forward_flops(work)
    scores = parts["attention"] / rates.attention
    return (scores + (parts["linear"] + parts["cross_attention"]) / rates.linear) / share / 1e12


def _elementwise(work: Workload, device: DeviceProfile, passes: int) -> float:
    """Seconds of one forward in norms, modulation, activations and casts."""
    config = work.configs.transformer
    values = work.tokens * flops.transformer_dim(config) * flops.transformer_blocks(config)
    return passes * values * BYTES[work.dtype] / (device.rates.memory_gb_s * 1e9)


def _streaming(work: Workload, device: DeviceProfile) -> float:
    """Seconds in which one forward's weights come from the host."""
    if work.offload != "group" or device.kind == "cpu":
        return 0.0
    return memory.expert_bytes(work) / (device.rates.transfer_gb_s * 1e9)


def forward_seconds(work: Workload, device: DeviceProfile, passes: int = EAGER_PASSES) -> float:
    """Return the expected seconds of one transformer forward."""
    computing = _products(work, device) + _elementwise(work, device, passes)
    calls = BLOCK_CALLS * flops.transformer_blocks(work.configs.transformer)
    return max(_issued(computing, calls, device), _streaming(work, device))


def denoise_seconds(work: Workload, device: DeviceProfile, passes: int = EAGER_PASSES) -> float:
    """Return the expected seconds of all forwards and of bringing the experts to the device."""
    brought = 0.0
    if work.offload == "model" and device.kind != "cpu":
        brought = work.experts * memory.expert_bytes(work) / (device.rates.transfer_gb_s * 1e9)
    return work.forwards * forward_seconds(work, device, passes) + brought


def _vae_seconds(
    work: Workload, device: DeviceProfile, counted: float, pieces: int, clips: int
) -> float:
    rates = device.rates
    rate = rates.vae_float32 if work.vae_dtype == "float32" else rates.vae_bfloat16
    calls = LAYER_CALLS * pieces * vae_flops.vae_layers(work.configs.vae)
    moved = 0.0
    if clips and work.offload != "none" and device.kind != "cpu":
        moved = memory.weights_bytes(work)["vae"] / (rates.transfer_gb_s * 1e9)
    return _issued(counted / rate / 1e12, calls, device) + moved


def condition_seconds(work: Workload, device: DeviceProfile) -> float:
    """Return the expected seconds of encoding given frames and images."""
    counts = count_flops(work)
    pieces = sum(1 + (frames - 1) // vae_flops.ENCODE_FRAMES for frames, _, _ in work.vae_encodes)
    vae = _vae_seconds(work, device, counts["vae_encode"], pieces, len(work.vae_encodes))
    # The CLIP tower always runs in float32.
    return vae + counts["image"] / (device.rates.linear * device.rates.float32_share) / 1e12


def decode_seconds(work: Workload, device: DeviceProfile) -> float:
    """Return the expected seconds of decoding the latents, writing the file not included."""
    return _vae_seconds(work, device, count_flops(work)["vae_decode"], work.latent_shape[0], 1)


def encode_seconds(work: Workload, device: DeviceProfile) -> float:
    """Return the expected seconds of encoding the prompts, loading the encoder not included."""
    rate = device.rates.linear * _share(work.dtype, device)
    return count_flops(work)["text"] / rate / 1e12


def _around(seconds: float, spread: float, least: float) -> Interval:
    """Return the interval of a time; nothing is faster than the device's peak (`least`)."""
    high = seconds * (1 + spread)
    return Interval(max(seconds / (1 + spread), least), max(high, least))


def _denoise_interval(
    work: Workload, device: DeviceProfile, spread: float, least: float
) -> Interval:
    """Return the interval of denoising, from the least to the most that attention may read.

    least  seconds of one operation at the device's peak
    """
    ends = []
    for off in (-work.attention_spread, work.attention_spread):
        share = min(1.0, work.attention_share + off)
        end = dataclasses.replace(work, attention_share=share)
        at_peak = end.forwards * sum(forward_flops(end).values()) * least
        ends.append(_around(denoise_seconds(end, device), spread, at_peak))
    return Interval(ends[0].low, ends[1].high)


def _seconds(
    work: Workload, device: DeviceProfile, counts: dict[str, float]
) -> dict[str, Interval]:
    rates = device.rates
    spread = rates.spread
    if device.kind == "cpu" and work.dtype != "float32":
        spread += CPU_16_BIT_SPREAD
    at_peak = 1 / (rates.peak * 1e12)
    least = at_peak / _share(work.dtype, device)
    text = _around(encode_seconds(work, device), spread, counts["text"] * least)
    slow, fast = DISK_GB_S
    read = memory.weights_bytes(work)["text_encoder"] / 1e9 if work.text_encodes else 0.0
    decode = _around(decode_seconds(work, device), spread, counts["vae_decode"] * at_peak)
    writing, _ = _FILES[work.format]
    megapixels = work.num_frames * work.width * work.height / 1e6
    stages = {
        "encode": Interval(text.low + read / fast, text.high + read / slow),
        "condition": _around(
            condition_seconds(work, device),
            spread,
            (counts["vae_encode"] + counts["image"]) * at_peak,
        ),
        "denoise": _denoise_interval(work, device, spread, least),
        "decode": Interval(
            decode.low + megapixels / writing[1], decode.high + megapixels / writing[0]
        ),
    }
    total = Interval(
        sum(stage.low for stage in stages.values()), sum(stage.high for stage in stages.values())
    )
    return {**stages, "total": total}


def _bound(
    work: Workload, device: DeviceProfile
) -> Literal["compute", "memory", "transfer", "vae"]:
    """Return what most of the time goes into."""
    pictures = decode_seconds(work, device) + condition_seconds(work, device)
    if pictures > denoise_seconds(work, device):
        return "vae"
    products = _products(work, device)
    elementwise = _elementwise(work, device, EAGER_PASSES)
    if _streaming(work, device) > products + elementwise:
        return "transfer"
    return "memory" if elementwise > products else "compute"


def _disk_bytes(work: Workload) -> Interval:
    """Latents in float32 and the finished file."""
    frames, rows, columns = work.latent_shape
    latents = 4 * work.latent_channels * frames * rows * columns + 4096
    _, bits = _FILES[work.format]
    pixels = work.num_frames * work.width * work.height
    return Interval(latents + pixels * bits[0] / 8, latents + 8192 + pixels * bits[1] / 8)


def _notes(work: Workload, device: DeviceProfile) -> tuple[str, ...]:
    notes = [
        f"Seconds from rates of {device.title}: {device.rates.source}.",
        "Loading the transformer and the VAE is not counted; a prompt in the embedding cache costs "
        "no encoding.",
    ]
    if work.offload == "group" and device.kind != "cpu":
        notes.append("Every forward brings all its weights from host memory.")
    if work.attention_spread:
        off = work.attention_spread / work.attention_share
        notes.append(f"Top-p decides while it runs: attention's work may be {off:.0%} off.")
    if device.kind == "cpu" and work.dtype != "float32":
        notes.append(f"A CPU without units for {work.dtype} is slower with it than with float32.")
    return tuple(notes)
