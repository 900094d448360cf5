"""Sparse-Linear Attention: the best blocks exactly, and linear attention over all tokens beside it.

After thu-ml/SLA, `sparse_linear_attention/core.py`, `utils.py` and `kernel.py`, and the same files
of TurboDiffusion. What is published runs linear attention over all tokens, those of the selected
blocks included.
"""

from torch import Tensor
from torch.nn import functional as F

from attention.executors import Executor
from attention.proxies import block_means
from attention.selection import Selection
from attention.trained.patterns import FeatureMap, Sla
from attention.trained.tiles import Attended, highest

# b batch  h heads  n tokens  q query blocks  k key blocks  d, e head dim

_TINY = 1e-5  # the published term that keeps the quotient finite


def select_sla(q_bhnd: Tensor, k_bhnd: Tensor, pattern: Sla) -> Selection:
    """Return the key blocks that each query block reads.

    Scores are products of block means, keys less the mean of all keys, not scaled; everything is
    rounded to q's dtype.

    q_bhnd, k_bhnd  in raster order, after the rotary embedding; the last block may be short
    Raises          AttentionError if the ratio keeps no block of so short a sequence
    """
    smooth = k_bhnd - k_bhnd.mean(dim=2, keepdim=True)
    queries = block_means(q_bhnd, pattern.query_block).to(q_bhnd.dtype)
    keys = block_means(smooth, pattern.key_block).to(q_bhnd.dtype)
    scores = queries @ keys.mT
    blocks, counts = highest(scores, pattern.kept(scores.shape[-1]))
    return Selection(
        blocks, counts, pattern.query_block, pattern.key_block, q_bhnd.shape[2], k_bhnd.shape[2]
    )


def attend_sla(
    q_bhnd: Tensor,
    k_bhnd: Tensor,
    v_bhnd: Tensor,
    weight_ed: Tensor,
    bias_e: Tensor,
    pattern: Sla,
    execute: Executor,
) -> Attended:
    """Return exact attention over the selected blocks plus the projected linear attention.

    weight_ed, bias_e  the layer's `proj_l`, one for all heads; used in q's dtype
    """
    selection = select_sla(q_bhnd, k_bhnd, pattern)
    exact = execute(q_bhnd, k_bhnd, v_bhnd, selection)
    linear = linear_attention(q_bhnd, k_bhnd, v_bhnd, pattern.feature_map)
    added = F.linear(linear, weight_ed.to(linear.dtype), bias_e.to(linear.dtype))
    return Attended(exact + added, selection)


def linear_attention(
    q_bhnd: Tensor, k_bhnd: Tensor, v_bhnd: Tensor, feature_map: FeatureMap
) -> Tensor:
    """Return linear attention over all tokens, in q's dtype."""
    q, k = _features(q_bhnd, feature_map), _features(k_bhnd, feature_map)
    sums_bhde = k.mT @ v_bhnd
    mass = (q * k.sum(dim=2, keepdim=True)).sum(dim=-1, keepdim=True)
    return (q @ sums_bhde) / (_TINY + mass)


def _features(x_bhnd: Tensor, feature_map: FeatureMap) -> Tensor:
    if feature_map == "softmax":
        return x_bhnd.softmax(dim=-1)
    return F.elu(x_bhnd) + 1 if feature_map == "elu" else F.relu(x_bhnd)
