"""Trained sparse attention in a transformer: its extra weights read, its layers as published."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from attention import Grid
from attention.trained import Bsa, Sla, Trained, Vsa, extra_weights
from tests.attention.naive import attend_one, best, boxes_of, mean, shares
from tests.folders import save_tiny
from vidgen.attention_plan import AttentionPlan
from vidgen.device import named
from vidgen.errors import NotFound, Unsupported
from vidgen.families import family
from vidgen.plan import plan
from vidgen.projections import rotated
from vidgen.request import parse_request
from vidgen.sparse import Moment, SparseSession
from vidgen.tiny import tiny_components
from vidgen.trained_sparse import find_extra_weights, read_extra_weights

HOMES = {"to_gate_compress": "", "proj_l": "attn1.attn_impl."}


def checkpoint(folder: Path, pattern: Trained, layers: int, size: int) -> dict[str, Tensor]:
    """Write a made-up checkpoint in two files; return its tensors."""
    made = torch.Generator().manual_seed(0)
    tensors = {}
    for layer in range(layers):
        tensors[f"blocks.{layer}.attn1.to_q.weight"] = torch.zeros(2, 2)
        for part in extra_weights(pattern):
            home = HOMES[part.split(".")[0]]
            shape = (size, size) if part.endswith("weight") else (size,)
            tensors[f"blocks.{layer}.{home}{part}"] = torch.randn(shape, generator=made) * 0.3
    names = sorted(tensors)
    for number, half in enumerate((names[::2], names[1::2])):
        save_file({name: tensors[name] for name in half}, folder / f"part-{number}.safetensors")
    return tensors


@pytest.mark.parametrize("pattern", [Vsa(), Sla()], ids=["vsa", "sla"])
def test_extra_weights_are_read_by_layer(tmp_path: Path, pattern: Trained) -> None:
    tensors = checkpoint(tmp_path, pattern, 3, 8)
    weights = read_extra_weights(tmp_path, pattern, layers=3)
    for layer in range(3):
        assert set(weights[layer]) == set(extra_weights(pattern))
        for part in extra_weights(pattern):
            name = f"blocks.{layer}.{HOMES[part.split('.')[0]]}{part}"
            assert torch.equal(weights[layer][part], tensors[name])


def test_missing_extra_weights_are_said_in_one_sentence(tmp_path: Path) -> None:
    checkpoint(tmp_path, Vsa(), 2, 8)
    with pytest.raises(Unsupported, match=r"attention=sla needs proj_l in all 2 layers") as caught:
        read_extra_weights(tmp_path, Sla(), layers=2)
    assert caught.value.field == "attention"
    with pytest.raises(Unsupported, match=r"lacks 2 of 6 tensors, first .* of layer 2"):
        find_extra_weights(tmp_path, Vsa(), layers=3)
    with pytest.raises(Unsupported, match=r"lacks"):  # half of them are in the other file
        find_extra_weights(tmp_path / "part-0.safetensors", Vsa(), layers=2)


def test_a_folder_without_weights_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no safetensors file"):
        read_extra_weights(tmp_path, Vsa(), layers=2)


def test_a_pattern_without_extra_weights_reads_nothing(tmp_path: Path) -> None:
    assert find_extra_weights(tmp_path, Bsa(), layers=2) == {}
    assert read_extra_weights(tmp_path, Bsa(), layers=2) == {0: {}, 1: {}}


@pytest.mark.parametrize("pattern", [Vsa(), Sla()], ids=["vsa", "sla"])
def test_what_a_checkpoint_does_not_say_is_noted(tmp_path: Path, pattern: Trained) -> None:
    folder = save_tiny(tmp_path / "model", "wan2.1-t2v")
    checkpoint(folder / "transformer", pattern, 3, 48 if isinstance(pattern, Vsa) else 24)
    fields = {"model": str(folder), "prompt": "a cat", "num_frames": 33}

    def notes(**changes: Any) -> str:
        return " ".join(plan(parse_request({**fields, **changes}), named("cpu")).notes)

    assumed = "does not say which share of the keys it was trained to read; density="
    assert assumed + ("0.2 is" if isinstance(pattern, Vsa) else "0.1 is") in notes()
    assert assumed not in notes(density=0.5)
    blocks = "does not say in which blocks it was trained; 128x64 tokens are taken"
    assert (blocks in notes(density=0.5)) == isinstance(pattern, Sla)
    assert "checkpoint" not in notes(model="toyworld", num_frames=9)


GRID = Grid(5, 2, 5)


class Published:
    """VSA as a processor in raster order, written out token by token."""

    _attention_backend = None
    _parallel_config = None

    def __init__(self, gate: dict[str, Tensor], kept: int) -> None:
        self.gate, self.kept = gate, kept

    def __call__(self, attn: Any, hidden: Tensor, *others: Any) -> Tensor:
        rotary = others[-1]
        q, k = attn.norm_q(attn.to_q(hidden)), attn.norm_k(attn.to_k(hidden))
        gates = hidden @ self.gate["to_gate_compress.weight"].to(hidden).T
        gates = gates + self.gate["to_gate_compress.bias"].to(hidden)
        q, k, v, gates = (
            x.unflatten(2, (attn.heads, -1)) for x in (q, k, attn.to_v(hidden), gates)
        )
        q, k = rotated(q, *rotary), rotated(k, *rotary)
        out = torch.zeros_like(v)
        boxes = boxes_of((GRID.frames, GRID.rows, GRID.columns), (4, 4, 4))
        for head in range(attn.heads):
            q1, k1, v1 = (x[0, :, head] for x in (q, k, v))
            means = [[mean(x, box) for box in boxes] for x in (q1, k1, v1)]
            for number, box in enumerate(boxes):
                scores = [float(means[0][number] @ m) / q1.shape[1] ** 0.5 for m in means[1]]
                parts = zip(shares(scores), means[2], strict=True)
                coarse = sum((share * value for share, value in parts), torch.zeros_like(v1[0]))
                read = [token for place in best(scores, self.kept) for token in boxes[place]]
                for token in box:
                    exact = attend_one(q1[token], k1, v1, read)
                    out[0, token, head] = coarse * gates[0, token, head] + exact
        return attn.to_out[0](out.flatten(2, 3))


def test_a_wan_transformer_computes_the_published_attention(tmp_path: Path) -> None:
    parts = tiny_components(family("wan2.1-t2v"))
    transformer = parts.transformer.double()
    layers, pattern = len(transformer.blocks), Vsa(0.5)
    width = transformer.config.num_attention_heads * transformer.config.attention_head_dim
    checkpoint(tmp_path, pattern, layers, width)
    weights = read_extra_weights(tmp_path, pattern, layers=layers)
    made = torch.Generator().manual_seed(1)
    patch = transformer.config.patch_size
    latents = torch.randn(
        1, transformer.config.in_channels,
        *(count * side for count, side in zip((5, 2, 5), patch, strict=True)),
        generator=made, dtype=torch.float64,
    )  # fmt: skip
    text = torch.randn(1, 5, transformer.config.text_dim, generator=made, dtype=torch.float64)
    inputs = {"hidden_states": latents, "timestep": torch.tensor([500]),
              "encoder_hidden_states": text, "return_dict": False}  # fmt: skip
    plan = AttentionPlan(pattern, "reference", "")
    session = SparseSession(plan, lambda _: Moment(0, 0.5), [weights])
    with torch.no_grad():
        dense = transformer(**inputs)[0]
        with session.attached(transformer):
            found = transformer(**inputs)[0]
        assert session.density.share == 0.5
        assert torch.equal(transformer(**inputs)[0], dense)
        for layer, block in enumerate(transformer.blocks):
            block.attn1.processor = Published(dict(weights[layer]), kept=2)
        wanted = transformer(**inputs)[0]
    assert (found - dense).norm() > 1e-2 * dense.norm()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_session_without_the_weights_refuses() -> None:
    parts = tiny_components(family("wan2.1-t2v"))
    transformer = parts.transformer
    config = transformer.config
    inputs = {"hidden_states": torch.zeros(1, config.in_channels, 1, 4, 4),
              "timestep": torch.tensor([500]), "return_dict": False,
              "encoder_hidden_states": torch.zeros(1, 5, config.text_dim)}  # fmt: skip
    session = SparseSession(AttentionPlan(Vsa(), "reference", ""), lambda _: Moment(0, 0.5))
    with session.attached(transformer), pytest.raises(ValueError, match="was not given to_gate"):
        transformer(**inputs)
