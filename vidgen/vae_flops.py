"""Exact work and weights of AutoencoderKLWan, and the memory it needs, from its config.

The layers are listed once, in the order in which they run; work, weights and memory are three
readings of that list. diffusers runs the causal VAE in pieces: it encodes the first frame alone and
then four frames at a time, and decodes one latent frame at a time.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from vidgen.flops import filled
from vidgen.models import Config

VAE_DEFAULTS: Config = {
    "base_dim": 96, "decoder_base_dim": None, "z_dim": 16, "dim_mult": [1, 2, 4, 4],
    "num_res_blocks": 2, "temperal_downsample": [False, True, True], "is_residual": False,
    "in_channels": 3, "out_channels": 3, "patch_size": None, "scale_factor_temporal": 4,
    "scale_factor_spatial": 8,
}  # fmt: skip

ENCODE_FRAMES = 4  # frames per piece after the first one, fixed in AutoencoderKLWan
TILE, TILE_STRIDE = 256, 192  # pixels, diffusers' defaults for tiled decoding


class Layer(NamedTuple):
    """One step of the VAE.

    op      conv keeps the size; down and up halve and double rows and columns; down_time and
            up_time do so with frames and skip the first piece; attend is attention within a frame;
            norm has weights but no counted work; block starts a part whose input is kept to its
            end for a shortcut, as Wan 2.2's VAE does, and with no channels ends the last one
    inputs, outputs  channels
    kernel  cells of the kernel
    """

    op: Literal["conv", "down", "up", "down_time", "up_time", "attend", "norm", "block"]
    inputs: int
    outputs: int
    kernel: int = 1


class Piece(NamedTuple):
    """The size of what is passed from layer to layer, in cells."""

    frames: int
    rows: int
    columns: int

    @property
    def cells(self) -> int:
        """Cells of one channel."""
        return self.frames * self.rows * self.columns


def _residual(inputs: int, outputs: int) -> Iterator[Layer]:
    if inputs != outputs:
        yield Layer("conv", inputs, outputs)
    yield Layer("norm", inputs, inputs)
    yield Layer("conv", inputs, outputs, 27)
    yield Layer("norm", outputs, outputs)
    yield Layer("conv", outputs, outputs, 27)


def _middle(dim: int) -> Iterator[Layer]:
    yield from _residual(dim, dim)
    yield Layer("attend", dim, dim)
    yield from _residual(dim, dim)


def _encoder(full: dict[str, Any]) -> Iterator[Layer]:
    dims = [full["base_dim"] * factor for factor in [1, *full["dim_mult"]]]
    yield Layer("conv", full["in_channels"], dims[0], 27)
    last = len(full["dim_mult"]) - 1
    for index, (inputs, outputs) in enumerate(itertools.pairwise(dims)):
        if full["is_residual"]:
            yield Layer("block", inputs, inputs)
        for _ in range(full["num_res_blocks"]):
            yield from _residual(inputs, outputs)
            inputs = outputs
        if index != last:
            yield Layer("down", outputs, outputs, 9)
            if full["temperal_downsample"][index]:
                yield Layer("down_time", outputs, outputs, 3)
    yield Layer("block", 0, 0)
    yield from _middle(dims[-1])
    yield Layer("norm", dims[-1], dims[-1])
    yield Layer("conv", dims[-1], 2 * full["z_dim"], 27)


def _decoder(full: dict[str, Any]) -> Iterator[Layer]:
    base = full["decoder_base_dim"] or full["base_dim"]
    mult = full["dim_mult"]
    dims = [base * factor for factor in [mult[-1], *reversed(mult)]]
    upsample = list(reversed(full["temperal_downsample"]))
    yield Layer("conv", full["z_dim"], dims[0], 27)
    yield from _middle(dims[0])
    last = len(mult) - 1
    for index, (inputs, outputs) in enumerate(itertools.pairwise(dims)):
        if index > 0 and not full["is_residual"]:
            inputs //= 2
        if full["is_residual"]:
            yield Layer("block", inputs, inputs)
        for _ in range(full["num_res_blocks"] + 1):
            yield from _residual(inputs, outputs)
            inputs = outputs
        if index != last:
            if upsample[index]:
                yield Layer("up_time", outputs, 2 * outputs, 3)
            made = outputs if full["is_residual"] else outputs // 2
            yield Layer("up", outputs, made, 9)
    yield Layer("block", 0, 0)
    yield Layer("norm", dims[-1], dims[-1])
    yield Layer("conv", dims[-1], full["out_channels"], 27)


def _step(layer: Layer, piece: Piece, *, first: bool) -> tuple[float, Piece]:
    """Return the work of a layer on a piece, and the piece it makes."""
    frames, rows, columns = piece
    if layer.op in ("norm", "block"):
        return 0.0, piece
    if layer.op == "attend":
        per_frame = 8 * rows * columns * layer.inputs**2
        per_frame += 4 * (rows * columns) ** 2 * layer.inputs
        return float(frames * per_frame), piece
    computed = out = piece
    if layer.op == "down":
        computed = out = Piece(frames, rows // 2, columns // 2)
    elif layer.op == "up":
        computed = out = Piece(frames, rows * 2, columns * 2)
    elif first and layer.op in ("down_time", "up_time"):
        return 0.0, piece
    elif layer.op == "down_time":
        computed = out = Piece(frames // 2, rows, columns)
    elif layer.op == "up_time":
        out = Piece(frames * 2, rows, columns)
    return 2.0 * layer.inputs * layer.outputs * layer.kernel * computed.cells, out


def _walk(layers: Iterator[Layer], piece: Piece, *, first: bool) -> float:
    total = 0.0
    for layer in layers:
        work, piece = _step(layer, piece, first=first)
        total += work
    return total


def _projection(channels: int, latent: Piece) -> float:
    """Return the work of the 1x1x1 convolution between the coder and its latents."""
    return 2.0 * channels * channels * latent.cells


def vae_encode_flops(config: Config, frames: int, height: int, width: int) -> float:
    """Return the work of encoding a clip of 4n+1 frames; sizes in pixels."""
    full = filled(config, VAE_DEFAULTS)
    patch = full["patch_size"] or 1
    rows, columns = height // patch, width // patch
    pieces = (frames - 1) // ENCODE_FRAMES
    total = _walk(_encoder(full), Piece(1, rows, columns), first=True)
    if pieces:
        total += pieces * _walk(_encoder(full), Piece(ENCODE_FRAMES, rows, columns), first=False)
    spatial = full["scale_factor_spatial"]
    latent = Piece(pieces + 1, height // spatial, width // spatial)
    return total + _projection(2 * full["z_dim"], latent)


def _decode_whole(full: dict[str, Any], latent: Piece) -> float:
    frame = Piece(1, latent.rows, latent.columns)
    total = _walk(_decoder(full), frame, first=True)
    if latent.frames > 1:
        total += (latent.frames - 1) * _walk(_decoder(full), frame, first=False)
    return total + _projection(full["z_dim"], latent)


def _tiles(full: dict[str, Any], rows: int, columns: int) -> list[tuple[int, int]]:
    """Return (rows, columns) of every tile of a tiled decode, one whole tile where it is small."""
    size = TILE // full["scale_factor_spatial"]
    stride = TILE_STRIDE // full["scale_factor_spatial"]
    if rows <= size and columns <= size:
        return [(rows, columns)]
    return [
        (min(size, rows - top), min(size, columns - left))
        for top in range(0, rows, stride)
        for left in range(0, columns, stride)
    ]


def vae_decode_flops(
    config: Config, frames: int, rows: int, columns: int, *, tiled: bool = False
) -> float:
    """Return the work of decoding a clip of latents.

    frames, rows, columns  of the latents
    tiled                  in diffusers' overlapping tiles, which costs more work and less memory
    """
    full = filled(config, VAE_DEFAULTS)
    tiles = _tiles(full, rows, columns) if tiled else [(rows, columns)]
    return sum(_decode_whole(full, Piece(frames, *tile)) for tile in tiles)


def vae_layers(config: Config) -> int:
    """Return the number of layers of the decoder, about the encoder's too."""
    return sum(1 for _ in _decoder(filled(config, VAE_DEFAULTS)))


def vae_parameters(config: Config) -> int:
    """Return the number of weights of encoder, decoder and the two latent projections."""
    full = filled(config, VAE_DEFAULTS)
    z_dim = full["z_dim"]
    ends = [Layer("conv", 2 * z_dim, 2 * z_dim), Layer("conv", z_dim, z_dim)]
    return sum(_weights(layer) for layer in [*_encoder(full), *_decoder(full), *ends])


def _weights(layer: Layer) -> int:
    if layer.op == "block":
        return 0
    if layer.op == "norm":
        return layer.inputs
    if layer.op == "attend":
        dim = layer.inputs
        return dim + 4 * (dim * dim + dim)
    return layer.inputs * layer.outputs * layer.kernel + layer.outputs


def _peak_values(layers: Iterator[Layer], piece: Piece) -> int:
    """Return the most numbers that are alive at once while a later piece passes the layers.

    A causal convolution holds its input, the input joined with two remembered frames, a padded copy
    of that and the input and shortcut of its residual block; the remembered frames of all layers
    stay. Checked against the tensors that are alive on the meta device.
    """
    most = remembered = held = 0
    for layer in layers:
        _, out = _step(layer, piece, first=False)
        grown = Piece(piece.frames + 2, piece.rows, piece.columns)
        if layer.op == "block":
            held = 2 * layer.inputs * piece.cells
            continue
        if layer.kernel in (27, 3):
            remembered += 2 * layer.inputs * piece.rows * piece.columns
            alive = layer.inputs * (3 * piece.cells + 2 * grown.cells) + layer.outputs * out.cells
        elif layer.op == "up":
            alive = layer.inputs * (2 * piece.cells + 2 * out.cells) + layer.outputs * out.cells
        else:
            alive = 4 * layer.inputs * piece.cells + layer.outputs * out.cells
        most = max(most, alive + remembered + held)
        piece = out
    return most


def vae_decode_values(config: Config, rows: int, columns: int, *, tiled: bool = False) -> int:
    """Return the most numbers alive at once in a decode; rows and columns of the latents."""
    full = filled(config, VAE_DEFAULTS)
    tiles = _tiles(full, rows, columns) if tiled else [(rows, columns)]
    return max(_peak_values(_decoder(full), Piece(1, *tile)) for tile in tiles)


def vae_encode_values(config: Config, height: int, width: int) -> int:
    """Return the most numbers alive at once in an encode; sizes in pixels."""
    full = filled(config, VAE_DEFAULTS)
    patch = full["patch_size"] or 1
    return _peak_values(_encoder(full), Piece(ENCODE_FRAMES, height // patch, width // patch))
