"""The memory that a clip needs, on the device and on the host, as intervals from its configs.

It follows what the engine does (`vidgen.residency`): the text encoder comes for its stage and is
dropped; the other parts stay (none) or come one at a time (model), or the experts stream (group).
"""

from typing import NamedTuple

from vidgen import flops, vae_flops
from vidgen.device import DeviceProfile
from vidgen.workload import BYTES, Dtype, Interval, Workload

CONTEXT = (0.4e9, 1.5e9)  # bytes: CUDA context, library workspaces, fragmentation
PROCESS = (0.4e9, 1.5e9)  # bytes: Python, torch and diffusers on the host; more with CUDA
CUDA_LIBRARIES = 2.0e9  # bytes on the host
ACTIVATIONS = (0.7, 1.15)  # of the formula below; live tensors were 0.72 to 0.91 of it
VAE_WORKSPACE = 1.4  # convolution workspaces, as a multiple of the live values


def _mixed(count: int, in_float32: int, dtype: Dtype) -> int:
    return (count - in_float32) * BYTES[dtype] + in_float32 * 4


def expert_bytes(work: Workload) -> int:
    """Return the bytes of one transformer's weights as diffusers loads them."""
    config = work.configs.transformer
    kept = flops.transformer_float32_parameters(config)
    return _mixed(flops.transformer_parameters(config), kept, work.dtype)


def weights_bytes(work: Workload) -> dict[str, int]:
    """Return the bytes of all weights by part; every expert counts, the CLIP tower is float32."""
    configs = work.configs
    text = flops.text_encoder_parameters(configs.text_encoder)
    kept = 0
    if work.dtype == "float16":
        kept = flops.text_encoder_float32_parameters(configs.text_encoder)
    image = 0
    if configs.image_encoder is not None:
        image = 4 * flops.image_encoder_parameters(configs.image_encoder)
    return {
        "transformer": work.experts * expert_bytes(work),
        "text_encoder": _mixed(text, kept, work.dtype),
        "image_encoder": image,
        "vae": vae_flops.vae_parameters(configs.vae) * BYTES[work.vae_dtype],
    }


class Stages(NamedTuple):
    """Bytes on the device in each stage of a run."""

    encode: float
    condition: float
    denoise: float
    decode: float


def activations(work: Workload) -> Stages:
    """Return the bytes of what the stages compute, without library workspaces."""
    configs = work.configs
    width = flops.text_encoder_width(configs.text_encoder)
    return Stages(
        encode=4.0 * work.text_length * width * 4,
        condition=_condition_values(work) * BYTES[work.vae_dtype],
        denoise=_denoise_bytes(work),
        decode=_decode_values(work) * BYTES[work.vae_dtype],
    )


def _denoise_bytes(work: Workload) -> float:
    config, number = work.configs.transformer, BYTES[work.dtype]
    dim = flops.transformer_dim(config)
    values = 8 * dim + 2 * flops.ffn_dim(config)
    values += dim * flops.vace_blocks(config)  # hints wait for the block that adds them
    per_token = values * number
    if work.token_times:
        # Six modulation vectors a token: as the time projection makes them, and in float32.
        per_token += 6 * dim * (number + 4)
    return float(work.tokens * per_token)


def _condition_values(work: Workload) -> float:
    return max(
        (
            vae_flops.vae_encode_values(work.configs.vae, height, width)
            + 3.0 * frames * height * width
            for frames, height, width in work.vae_encodes
        ),
        default=0.0,
    )


def _decode_values(work: Workload) -> float:
    _, rows, columns = work.latent_shape
    vae = work.configs.vae
    values = vae_flops.vae_decode_values(vae, rows, columns, tiled=work.vae_tiling)
    if not work.vae_tiling:
        return float(values)
    # Of the clip: one tile, in pieces and joined, and the lower edges of two rows of tiles.
    tile, stride = vae_flops.TILE, vae_flops.TILE_STRIDE
    edges = 2 * (tile - stride) * (work.width * tile / stride + tile)
    return values + 3.0 * work.num_frames * (2 * tile * tile + edges)


def _resident(work: Workload, *, least: bool) -> Stages:
    """Return the bytes of weights on the device in each stage.

    least  of a group-offloaded transformer, the fewest that can be there
    """
    parts = weights_bytes(work)
    vae, image = parts["vae"], parts["image_encoder"]
    text = parts["text_encoder"] if work.text_encodes else 0
    if work.offload == "none":
        kept = parts["transformer"] + vae + image
        return Stages(kept + text, kept, kept, kept)
    condition = max(vae if work.vae_encodes else 0, image if work.image_encodes else 0)
    transformer = float(expert_bytes(work))
    if work.offload == "group":
        # One layer works while the next ones arrive.
        transformer *= (1 if least else 3) / flops.transformer_blocks(work.configs.transformer)
    return Stages(text, condition, transformer, vae)


def _peak(work: Workload, *, least: bool) -> float:
    """Return the largest sum of weights and activations over the stages."""
    values, weights = activations(work), _resident(work, least=least)
    scale = ACTIVATIONS[0 if least else 1]
    vae = 1.0 if least else VAE_WORKSPACE
    needs = Stages(
        values.encode * scale, values.condition * vae, values.denoise * scale, values.decode * vae
    )
    return max(weight + need for weight, need in zip(weights, needs, strict=True))


def device_bytes(work: Workload, device: DeviceProfile) -> Interval:
    """Return the peak memory of the device; of a CPU, the whole process's."""
    extra = PROCESS if device.kind == "cpu" else CONTEXT
    low, high = _peak(work, least=True) + extra[0], _peak(work, least=False) + extra[1]
    if device.kind == "cpu":
        high += _frames(work)
    return Interval(low, high)


def host_bytes(work: Workload, device: DeviceProfile) -> Interval:
    """Return the peak memory of the process on the host."""
    if device.kind == "cpu":
        return device_bytes(work, device)
    parts = weights_bytes(work)
    loaded = parts["transformer"] + parts["vae"] + parts["image_encoder"]
    text = parts["text_encoder"] if work.text_encodes else 0
    low = PROCESS[0] + (max(parts["transformer"], text) if work.offload == "none" else loaded)
    high = PROCESS[1] + CUDA_LIBRARIES + loaded + text + _frames(work)
    if work.offload == "group":
        high += parts["transformer"]  # copies that the device can read directly
    return Interval(low, high)


def _frames(work: Workload) -> float:
    """Bytes of all frames in float32, twice: as made and as written."""
    return 2.0 * work.num_frames * work.width * work.height * 3 * 4
