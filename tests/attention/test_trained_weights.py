"""The names of the weights that trained patterns add, and the refusal without them."""

import subprocess
import sys

import pytest
import torch

import attention.trained
from attention import AttentionError, Grid, Host, choose, executor
from attention.trained import (
    Bsa,
    Nabla,
    Sla,
    Trained,
    Vsa,
    attend_trained,
    attend_vsa,
    extra_weights,
    layer_and_part,
    prepare,
    require_weights,
)
from tests.attention.naive import some

GATE, PROJECTION = "to_gate_compress", "proj_l"
BOTH = ("weight", "bias")


def names(prefix: str, layers: int) -> list[str]:
    return [prefix.format(layer) + f".{part}" for layer in range(layers) for part in BOTH]


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (Vsa(), "blocks.{}.to_gate_compress"),
        (Vsa(), "model.blocks.{}.attn1.to_gate_compress"),
        (Sla(), "blocks.{}.attn1.attn_impl.proj_l"),
        (Sla(), "blocks.{}.self_attn.attn_op.local_attn.proj_l"),
        (Sla(), "net.blocks.{}.self_attn.attn_op.local_attn.proj_l"),
    ],
)
def test_published_names_are_known(pattern: Trained, prefix: str) -> None:
    found = names(prefix, 12)
    require_weights(pattern, found, 12)
    assert layer_and_part(pattern, found[-1]) == (11, extra_weights(pattern)[1])


@pytest.mark.parametrize(
    "name",
    [
        "blocks.0.attn2.to_gate_compress.weight",
        "vace_blocks.0.to_gate_compress.weight",
        "blocks.0.to_gate_compress.weight_scale",
        "blocks.0.to_gate_compress.lora_A.weight",
        "blocks.0.attn1.to_q.weight",
        "to_gate_compress.weight",
    ],
)
def test_other_tensors_are_not_taken(name: str) -> None:
    assert layer_and_part(Vsa(), name) is None


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [(Vsa(), "blocks.{}.to_gate_compress"), (Sla(), "blocks.{}.attn1.proj_l")],
)
def test_a_checkpoint_without_them_is_refused(pattern: Trained, prefix: str) -> None:
    word = type(pattern).__name__.lower()
    wanted = (
        rf"^attention={word} needs \w+ in all 3 layers and the checkpoint lacks 6 of 6 tensors, "
        r"first .* of layer 0; use "
    )
    with pytest.raises(AttentionError, match=wanted) as caught:
        require_weights(pattern, ["blocks.0.attn1.to_q.weight"], 3)
    assert caught.value.field == "attention"
    part = names(prefix, 3)
    part.remove(prefix.format(1) + ".bias")
    with pytest.raises(AttentionError, match=r"lacks 1 of 6 tensors, first \w+\.bias of layer 1;"):
        require_weights(pattern, part, 3)


def test_a_layer_more_than_the_checkpoint_has_is_missing() -> None:
    with pytest.raises(AttentionError, match="of layer 2"):
        require_weights(Vsa(), names("blocks.{}.to_gate_compress", 2), 3)


@pytest.mark.parametrize("pattern", [Bsa(), Nabla()])
def test_the_others_need_none(pattern: Trained) -> None:
    assert extra_weights(pattern) == ()
    require_weights(pattern, [], 30)


@pytest.mark.parametrize("pattern", [Vsa(), Sla(0.5, 16, 16)])
def test_a_layer_without_them_does_not_run(pattern: Trained) -> None:
    grid = Grid(1, 6, 8)
    x = torch.zeros(1, 1, 48, 8)
    with pytest.raises(AttentionError, match="was not given"):
        attend_trained(prepare(pattern, grid), x, x, x, x[0], {}, executor("reference"))


def test_the_gate_comes_from_the_hidden_states_channel_by_channel() -> None:
    grid = Grid(5, 3, 6)
    q, k, v = (some(2, 3, 90, 4, seed=seed) for seed in range(3))
    hidden, weight, bias = some(2, 90, 12, seed=3), some(12, 12, seed=4), some(12, seed=5)
    weights = {f"{GATE}.weight": weight, f"{GATE}.bias": bias}
    prepared = prepare(Vsa(0.5), grid)
    out = attend_trained(prepared, q, k, v, hidden, weights, executor("reference")).out
    gates = torch.zeros(2, 3, 90, 4).double()
    for b in range(2):
        for head in range(3):
            for channel in range(4):
                row = 4 * head + channel
                gates[b, head, :, channel] = hidden[b] @ weight[row] + bias[row]
    assert prepared.layout is not None
    wanted = attend_vsa(q, k, v, gates, prepared.layout, Vsa(0.5), executor("reference")).out
    torch.testing.assert_close(out, wanted)


@pytest.mark.parametrize(
    ("pattern", "grid", "pairs"),
    [
        (Vsa(), Grid(5, 4, 4), 4),
        (Sla(1.0, 32, 16), Grid(2, 5, 8), 15),
        (Bsa(0.5, (2, 2, 4)), Grid(4, 4, 8), 64),
        (Nabla(), Grid(2, 8, 16), 16),
    ],
)
def test_every_pattern_runs_through_the_seam(pattern: Trained, grid: Grid, pairs: int) -> None:
    prepared = prepare(pattern, grid)
    assert prepared.pairs == pairs
    assert sorted(prepared.order_n.tolist()) == list(range(grid.tokens))
    x = some(2, 1, grid.tokens, 8, seed=0)
    weights = {name: torch.zeros(8, 8) if "weight" in name else torch.zeros(8)
               for name in extra_weights(pattern)}  # fmt: skip
    out, selection = attend_trained(prepared, x, x, x, x[:, 0], weights, executor("reference"))
    assert out.shape == x.shape
    rows, columns = selection.counts_bhq.shape[2], selection.key_blocks
    assert rows * columns == pairs


def test_choosing_knows_them_and_has_no_floor_for_them() -> None:
    """Below a floor a trained model would lose the branch that its weights rely on."""
    host = Host("cpu", (0, 0), frozenset({"cpu"}))
    for pattern in (Vsa(), Sla(), Bsa(), Nabla()):
        made = choose(pattern, host, tokens=100, head_dim=128, dtype="float32", min_tokens=5000)
        assert (made.pattern, made.backend) == (pattern, "cpu")


def test_importing_loads_no_torch_and_names_are_found() -> None:
    code = "import sys, attention, attention.trained; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in attention.trained.__all__:
        assert getattr(attention.trained, name) is not None
    with pytest.raises(AttributeError):
        _ = attention.trained.nothing
