"""What is measured of a model's heads: each self-attention for itself, and used by that one."""

import dataclasses
import itertools
from typing import Any

import pytest
import torch

from attention import Grid, Layout, Selection, TopK
from attention.layout import priorities
from attention.patterns import kept_blocks
from tests.engine.cases import Case, engine_for, inputs_of, make_plan
from vidgen.attention_plan import AttentionPlan
from vidgen.budgets import DENSITIES
from vidgen.density import Density
from vidgen.errors import BadRequest
from vidgen.families import family
from vidgen.recall import RecallSession, recall_curve
from vidgen.sparse import Moment, SparseSession
from vidgen.tiny import tiny_components

pytestmark = pytest.mark.usefixtures("one_thread")
PATTERN = TopK(0.25, neighbours=0, score="mean")
PLAN = AttentionPlan(PATTERN, "reference", "", 8, 8)


def inputs(transformer: Any) -> dict[str, Any]:
    made, config = torch.Generator().manual_seed(5), transformer.config
    found = {
        "hidden_states": torch.randn(1, config.in_channels, 3, 8, 8, generator=made),
        "timestep": torch.tensor([500]),
        "encoder_hidden_states": torch.randn(1, 8, 32, generator=made),
        "return_dict": False,
    }
    if "vace_layers" in config:
        size = (1, config.vace_in_channels, 3, 8, 8)
        found["control_hidden_states"] = torch.randn(size, generator=made)
    return found


def measured(*transformers: Any, ran: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Run some transformers, all by default; return [row][head][density]."""
    session = RecallSession(PLAN)
    with session.attached(*transformers), torch.no_grad():
        for transformer in ran or transformers:
            transformer(**inputs(transformer))
    (recall,) = session.recalls("model", "weights")
    assert recall.grid == "3x4x4"
    return recall.kept


def test_two_experts_are_measured_apart() -> None:
    experts = tiny_components(family("wan2.2-t2v-a14b")).transformers
    alone = [measured(expert) for expert in experts]
    assert measured(*experts) == (*alone[0], *alone[1])
    assert alone[0] != alone[1]


def test_an_expert_that_had_no_turn_is_said() -> None:
    experts = tiny_components(family("wan2.2-t2v-a14b")).transformers
    with pytest.raises(BadRequest, match="3 of 6 self-attentions were not looked at on 3x4x4"):
        measured(*experts, ran=tuple(experts[:1]))


def test_control_blocks_are_not_taken_for_the_layers_they_feed() -> None:
    transformer = tiny_components(family("wan2.1-vace")).transformer
    whole = measured(transformer)
    assert len(whole) == 3 + 2
    assert len(set(whole)) == 5
    # The first control block works on its own input: what the main ones compute is the same
    # without it.
    torch.nn.init.zeros_(transformer.vace_blocks[0].attn1.to_q.weight)
    torch.nn.init.zeros_(transformer.vace_blocks[0].attn1.to_q.bias)
    changed = measured(transformer)
    assert changed[0] == whole[0]
    assert changed[3] != whole[3]


@pytest.mark.parametrize("name", ["wan2.1-vace", "wan2.2-t2v-a14b"])
def test_every_self_attention_reads_by_its_own_budgets(name: str) -> None:
    transformers = tiny_components(family(name)).transformers
    rows = 5 if name == "wan2.1-vace" else 6
    wanted = [(row + 1) / 6 for row in range(rows)]  # of the 6 blocks of 48 tokens
    pattern = dataclasses.replace(PATTERN, budgets=tuple((share, share) for share in wanted))
    plan = dataclasses.replace(PLAN, pattern=pattern)
    session = SparseSession(plan, lambda _: Moment(0, 0.5))
    session.density = Noted()
    with session.attached(*transformers), torch.no_grad():
        for transformer in transformers:
            transformer(**inputs(transformer))
    # VACE's control blocks run before the others.
    order = [3, 4, 0, 1, 2] if name == "wan2.1-vace" else range(6)
    assert session.density.found == pytest.approx([wanted[row] for row in order])


class Noted(Density):
    """Notes the density of each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def add(self, selection: Selection, pairs: int) -> None:
        self.found.append(float(selection.density()))
        super().add(selection, pairs)


def test_budgets_of_two_experts_run_in_the_engine() -> None:
    case = Case(family("wan2.2-t2v-a14b"), "t2v")
    made = make_plan(
        case, attention="topk", min_tokens=0, query_block=8, key_block=8, dense_steps=0,
        dense_layers="none",
    )  # fmt: skip
    assert isinstance(made.attention.pattern, TopK)
    shares = []
    for second in (0.25, 0.75):
        budgets = ((0.25, 0.25),) * 3 + ((second, second),) * 3
        pattern = dataclasses.replace(made.attention.pattern, budgets=budgets)
        attention = dataclasses.replace(made.attention, pattern=pattern)
        plan = dataclasses.replace(made, attention=attention)
        shares.append(engine_for(case).run(plan, inputs_of(case)).trace.density)
    assert shares[0] < shares[1] < 0.75


def test_the_curve_is_the_share_of_the_softmax_on_the_blocks_that_rank_first() -> None:
    layout, made = Layout(Grid(3, 4, 5), 8, 8), torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, 3, 60, 16, generator=made) for _ in range(2))
    curve = recall_curve(q, k, layout, TopK(0.25, score="mean"))
    first = priorities(layout, neighbours=1).tolist()
    wanted = torch.zeros(3, len(DENSITIES))
    for batch, head, row in itertools.product(range(2), range(3), range(8)):
        queries, keys = q[batch, head, 8 * row : 8 * row + 8], k[batch, head].split(8)
        weights = (queries @ k[batch, head].T / 4).softmax(dim=-1).mean(dim=0).split(8)
        scores = [float(queries.mean(dim=0) @ part.mean(dim=0)) for part in keys]
        # What is always kept comes first, from the left; then what scores highest.
        ranks = sorted(
            range(8), key=lambda at: (-first[row][at], -scores[at] * (not first[row][at]))
        )
        held = [float(weights[at].sum()) for at in ranks]
        for place, density in enumerate(DENSITIES):
            wanted[head, place] += sum(held[: kept_blocks(density, 8)]) / 16
    torch.testing.assert_close(curve, wanted, rtol=0, atol=1e-5)
