"""The Triton kernels of the router: device code only, launched from `triton_router`.

Triton reads these functions as source, so their arguments carry no types. Capitals are compile-time
constants.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["heads", "q_tokens", "k_tokens", "q_parts", "k_parts"])
def pool_parts(
    q, k, q_means, k_means, heads, q_tokens, k_tokens, q_parts, k_parts,
    q_sb, q_sh, q_sn, k_sb, k_sh, k_sn, scale,
    HEAD_DIM: tl.constexpr, Q_PART: tl.constexpr, K_PART: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Write the float32 means of every part of q, times scale, and of every part of k."""
    part = tl.program_id(0)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = (tl.program_id(1) % heads).to(tl.int64)
    if part < q_parts:
        mean = part_mean(q + batch * q_sb + head * q_sh, part, q_tokens, q_sn,
                         HEAD_DIM, Q_PART, CHUNK)  # fmt: skip
        row = (batch * heads + head) * q_parts + part
        tl.store(q_means + row * HEAD_DIM + tl.arange(0, HEAD_DIM), mean * scale)
    else:
        part -= q_parts
        mean = part_mean(k + batch * k_sb + head * k_sh, part, k_tokens, k_sn,
                         HEAD_DIM, K_PART, CHUNK)  # fmt: skip
        row = (batch * heads + head) * k_parts + part
        tl.store(k_means + row * HEAD_DIM + tl.arange(0, HEAD_DIM), mean)


@triton.jit
def part_mean(
    x, part, length, x_sn, HEAD_DIM: tl.constexpr, PART: tl.constexpr, CHUNK: tl.constexpr
):
    """Return the mean of one part's tokens [HEAD_DIM]; the last part may be short."""
    first = part.to(tl.int64) * PART
    total = tl.zeros([HEAD_DIM], tl.float32)
    for start in range(0, PART, CHUNK):
        inside_part = start + tl.arange(0, CHUNK)
        token = first + inside_part
        inside = (inside_part < PART) & (token < length)
        places = x + token[:, None] * x_sn + tl.arange(0, HEAD_DIM)[None, :]
        total += tl.sum(tl.load(places, mask=inside[:, None], other=0.0).to(tl.float32), 0)
    return total / tl.minimum(length - first, PART).to(tl.float32)


@triton.jit(do_not_specialize=["q_parts", "k_parts"])
def row_mass(
    q_means, k_means, masses, q_parts, k_parts, k_tokens,
    HEAD_DIM: tl.constexpr, K_PART: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Write, for every part of q, the log of the summed exponentials over all parts of k."""
    matrix = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    highest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, k_parts, KEYS):
        scores = part_scores(q_means + matrix * q_parts * HEAD_DIM, row, q_parts,
                             k_means + matrix * k_parts * HEAD_DIM, start, k_parts, k_tokens,
                             HEAD_DIM, K_PART, ROWS, KEYS, PRECISION)  # fmt: skip
        higher = tl.maximum(highest, tl.max(scores, 1))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(scores - higher[:, None]), 1)
        highest = higher
    tl.store(masses + matrix * q_parts + row, highest + tl.log(total), mask=row < q_parts)


@triton.jit(do_not_specialize=["q_parts", "k_parts", "q_blocks", "k_blocks"])
def join_scores(
    q_means, k_means, masses, scores_out, q_parts, k_parts, k_tokens, q_blocks, k_blocks,
    HEAD_DIM: tl.constexpr, K_PART: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, Q_JOIN: tl.constexpr, K_JOIN: tl.constexpr,
    MASS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Write the scores of a tile of blocks: the part scores joined, never stored themselves.

    Q_JOIN, K_JOIN  parts per block
    MASS            subtract each part row's `masses` first
    """
    matrix = tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    scores = part_scores(q_means + matrix * q_parts * HEAD_DIM, row, q_parts,
                         k_means + matrix * k_parts * HEAD_DIM, tl.program_id(0) * KEYS,
                         k_parts, k_tokens, HEAD_DIM, K_PART, ROWS, KEYS, PRECISION)  # fmt: skip
    if MASS:
        mass = tl.load(masses + matrix * q_parts + row, mask=row < q_parts, other=0.0)
        scores -= mass[:, None]
    scores = tl.where((row < q_parts)[:, None], scores, float("-inf"))
    Q_BLOCKS: tl.constexpr = ROWS // Q_JOIN
    K_BLOCKS: tl.constexpr = KEYS // K_JOIN
    over_keys = log_sum(scores.reshape(ROWS, K_BLOCKS, K_JOIN), 2)
    joined = log_sum(over_keys.reshape(Q_BLOCKS, Q_JOIN, K_BLOCKS), 1)
    q_block = tl.program_id(1) * Q_BLOCKS + tl.arange(0, Q_BLOCKS)
    k_block = tl.program_id(0) * K_BLOCKS + tl.arange(0, K_BLOCKS)
    places = (matrix * q_blocks + q_block)[:, None] * k_blocks + k_block[None, :]
    inside = (q_block < q_blocks)[:, None] & (k_block < k_blocks)[None, :]
    tl.store(scores_out + places, joined, mask=inside)


@triton.jit
def part_scores(
    q_means, row, q_parts, k_means, start, k_parts, k_tokens,
    HEAD_DIM: tl.constexpr, K_PART: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Return a tile of products plus the log of the key parts' sizes; -inf past the end."""
    column = start + tl.arange(0, KEYS)
    CHUNK: tl.constexpr = min(HEAD_DIM, 32)  # of float32, which is all that fits beside the tile
    products = tl.zeros([ROWS, KEYS], tl.float32)
    for first in range(0, HEAD_DIM, CHUNK):
        q_rows = load_means(q_means + first, row, q_parts, HEAD_DIM, CHUNK)
        k_rows = load_means(k_means + first, column, k_parts, HEAD_DIM, CHUNK)
        products = tl.dot(q_rows, tl.trans(k_rows), products, input_precision=PRECISION)
    size = tl.minimum(k_tokens - column * K_PART, K_PART)
    log_size = tl.where(size > 0, tl.log(tl.maximum(size, 1).to(tl.float32)), float("-inf"))
    return products + log_size[None, :]


@triton.jit
def load_means(means, row, rows, HEAD_DIM: tl.constexpr, CHUNK: tl.constexpr):
    """Load some channels of rows of means; past the end there are zeros."""
    places = means + row[:, None] * HEAD_DIM + tl.arange(0, CHUNK)[None, :]
    return tl.load(places, mask=(row < rows)[:, None], other=0.0)


@triton.jit
def log_sum(x, AXIS: tl.constexpr):
    """Return the log of the sum of exponentials along an axis; -inf where all are."""
    highest = tl.max(x, AXIS)
    # Of nothing but -inf, the difference below would not be a number.
    base = tl.where(highest == float("-inf"), 0.0, highest)
    return base + tl.log(tl.sum(tl.exp(x - tl.expand_dims(base, AXIS)), AXIS))
