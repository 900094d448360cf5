"""How much of dense attention's work a run with an attention plan does, counted beforehand."""

import math

from attention import AttentionError, Dense, Grid, Sla, TopK, Vsa, Window
from attention.patterns import kept_blocks
from attention.trained import Trained
from vidgen.attention_plan import AttentionPlan, layers_of, noise_level
from vidgen.errors import BadRequest
from vidgen.models import Model

# Operations with a proxy over those with a key: its product and sum, and the variance's product.
_PROXY_WORK = {"none": 0.0, "mean": 1.0, "mean_var": 1.5}


def attention_share(
    made: AttentionPlan, model: Model, grid: Grid, steps: tuple[int, int], flow_shift: float
) -> float:
    """Return the share of dense attention's work that a run does, router and proxies included.

    steps  first step that is run, and steps of the whole schedule
    """
    pattern = made.pattern
    if isinstance(pattern, Dense):
        return 1.0
    if not isinstance(pattern, TopK | Window):
        return _trained_share(pattern, grid)
    share = _kept_share(pattern, made, grid)
    if isinstance(pattern, TopK):
        share += _router_share(made, pattern)
    sparse = sparse_part(made, model, steps, flow_shift)
    return 1 - sparse + sparse * min(share, 1.0)


def attention_spread(
    made: AttentionPlan, model: Model, grid: Grid, steps: tuple[int, int], flow_shift: float
) -> float:
    """Return how far above or below `attention_share` a run may be: as far as top-p may go."""
    pattern = made.pattern
    if not isinstance(pattern, TopK) or pattern.top_p is None:
        return 0.0
    # A row reads half to one and a half times its count.
    return sparse_part(made, model, steps, flow_shift) * _kept_share(pattern, made, grid) / 2


def _kept_share(pattern: TopK | Window, made: AttentionPlan, grid: Grid) -> float:
    """Return the share of key blocks that the query blocks of a sparse layer read."""
    key_blocks = -(-grid.tokens // made.key_block)
    return kept_blocks(pattern.density, key_blocks) / key_blocks


def sparse_part(
    made: AttentionPlan, model: Model, steps: tuple[int, int], flow_shift: float
) -> float:
    """Return the share of a run's self-attentions, over layers and steps, that are sparse.

    steps  first step that is run, and steps of the whole schedule
    """
    if isinstance(made.pattern, Dense):
        return 0.0
    if not isinstance(made.pattern, TopK | Window):
        return 1.0
    layers = layers_of(model)
    dense_layers = sum(layer in made.dense_layers for layer in layers) / len(layers)
    first, total = steps
    levels = [noise_level(index / total, flow_shift) for index in range(first, total)]
    dense_steps = sum(level > made.dense_above for level in levels) / len(levels)
    return (1 - dense_steps) * (1 - dense_layers)


def _router_share(made: AttentionPlan, pattern: TopK) -> float:
    """Return the work of judging blocks and of the proxies for those left out."""
    query_part, key_part = (
        block if pattern.score == "mean" else math.gcd(pattern.sub_block, block)
        for block in (made.query_block, made.key_block)
    )
    # Multiplying the parts' means is half of attention's work, on fewer tokens. The Triton router
    # keeps no products, and makes them once more for the sums that a mass is a share of.
    passes = 2 if made.backend == "triton" and pattern.score == "mass" else 1
    judging = 0.5 * passes / (query_part * key_part)
    return judging + _PROXY_WORK[pattern.compensate] / made.key_block


def _trained_share(pattern: Trained, grid: Grid) -> float:
    """Return the share of dense attention's products that a trained pattern computes."""
    if isinstance(pattern, Vsa):
        cubes = math.prod(-(-side // 4) for side in (grid.frames, grid.rows, grid.columns))
        return min(1.0, pattern.kept(cubes) / cubes + 1 / 64**2)
    assert isinstance(pattern, Sla)
    blocks = -(-grid.tokens // pattern.key_block)
    try:
        return pattern.kept(blocks) / blocks
    except AttentionError as error:
        raise BadRequest(str(error), field="density") from None
