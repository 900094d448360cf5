"""The Triton kernels of block-sparse attention: device code only, launched from `triton_blocks`.

Triton reads these functions as source, so their arguments carry no types. Capitals are compile-time
constants.
"""

import triton
import triton.language as tl

# q, k, v, out, proxy_*  [batch, heads, tokens, head dim], or descriptors of them where TMA
# *_steps                strides of batch, head and token; 0 where a list is shared
# place                  batch and head
# state                  of a running softmax: highest logit, sum of weights, weighted values

# Sizes and lists do not change the code, so that a new length never means a new compilation.
_PLAIN = [
    "heads", "batch_heads", "num_queries", "num_keys", "num_blocks",
    "list_sb", "list_sh", "list_sq", "count_sb", "count_sh", "word_sb", "word_sh", "word_sq",
]  # fmt: skip


@triton.jit(do_not_specialize=_PLAIN)
def attend_blocks(
    q, k, v, out, blocks, counts, key_sizes,
    proxy_keys, proxy_values, proxy_variances, proxy_sizes, read_words,
    scale, heads, batch_heads, num_queries, num_keys, num_blocks,
    q_sb, q_sh, q_sn, k_sb, k_sh, k_sn, v_sb, v_sh, v_sn, out_sb, out_sh, out_sn,
    list_sb, list_sh, list_sq, count_sb, count_sh, word_sb, word_sh, word_sq,
    HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, PROXIES: tl.constexpr,
    TILES_PER_LIST: tl.constexpr, TILES_PER_BLOCK: tl.constexpr,
    RAGGED: tl.constexpr, PADDED: tl.constexpr, COMPENSATE: tl.constexpr,
    TMA: tl.constexpr, WIDE: tl.constexpr, PROXY_STAGES: tl.constexpr,
):  # fmt: skip
    """Attend from every tile of query rows to its list of key blocks and the others' proxies.

    scale       of the products, times log2(e): all exponentials are powers of two
    COMPENSATE  0: no proxies; 1: means; 2: means and variances
    RAGGED      the last key block is short; lists are ascending, so it is the last of its list
    PADDED      only the first key_sizes[j] tokens of block j are real
    WIDE        multiply in float32 (the interpreter cannot multiply bfloat16)
    """
    row_tiles = tl.cdiv(num_queries, ROWS)
    tiles = row_tiles * batch_heads
    # Addresses within tiles are computed for each tile again: kept over all of them, those of
    # descriptors fill so many registers that others spill.
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), disable_licm=TMA):
        # Programs side by side work on one head, whose keys and values then stay in the L2 cache.
        # The last rows come first: where there is text they hold it and read every block.
        batch = (tile // row_tiles // heads).to(tl.int64)
        head = (tile // row_tiles % heads).to(tl.int64)
        place = (batch, head)
        row_tile = row_tiles - 1 - tile % row_tiles
        row = row_tile // TILES_PER_LIST
        q_rows = load_tile(q, (q_sb, q_sh, q_sn), place, row_tile * ROWS, num_queries,
                           HEAD_DIM, ROWS, TMA, True)  # fmt: skip
        state = (
            tl.full([ROWS], float("-inf"), tl.float32),
            tl.zeros([ROWS], tl.float32),
            tl.zeros([ROWS, HEAD_DIM], tl.float32),
        )
        state = read_blocks(
            state, q_rows, k, (k_sb, k_sh, k_sn), v, (v_sb, v_sh, v_sn), place,
            blocks + batch * list_sb + head * list_sh + row * list_sq,
            tl.load(counts + batch * count_sb + head * count_sh + row),
            key_sizes, scale, num_keys, num_blocks,
            HEAD_DIM, KEYS, TILES_PER_BLOCK, RAGGED, PADDED, TMA, WIDE,
        )  # fmt: skip
        if COMPENSATE > 0:
            squares = q_rows
            if COMPENSATE == 2:
                # Kept from above, the rows would take up registers throughout the list. A policy
                # of its own keeps the compiler from making one load of the two.
                again = load_tile(q, (q_sb, q_sh, q_sn), place, row_tile * ROWS, num_queries,
                                  HEAD_DIM, ROWS, TMA, True, "evict_first")  # fmt: skip
                squares = half_squares(again, scale, WIDE)
            state = read_proxies(
                state, q_rows, squares,
                proxy_keys, proxy_values, proxy_variances, proxy_sizes, place,
                read_words + batch * word_sb + head * word_sh + row * word_sq,
                scale, heads, num_blocks,
                HEAD_DIM, PROXIES, COMPENSATE, TMA, WIDE, PROXY_STAGES,
            )  # fmt: skip
        _, total, acc = state
        token = row_tile * ROWS + tl.arange(0, ROWS)
        inside = token < num_queries
        out_rows = out + batch * out_sb + head * out_sh + token.to(tl.int64) * out_sn
        values = (acc / total[:, None]).to(out.dtype.element_ty)
        tl.store(out_rows[:, None] + tl.arange(0, HEAD_DIM)[None, :], values, mask=inside[:, None])


@triton.jit
def read_blocks(
    state, q_rows, k, k_steps, v, v_steps, place, listed, count,
    key_sizes, scale, num_keys, num_blocks,
    HEAD_DIM: tl.constexpr, KEYS: tl.constexpr, TILES_PER_BLOCK: tl.constexpr,
    RAGGED: tl.constexpr, PADDED: tl.constexpr, TMA: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Take the blocks of a list into a running softmax."""
    highest, total, acc = state
    whole = count
    if RAGGED:
        whole -= (tl.load(listed + count - 1) == num_blocks - 1).to(tl.int32)
    block = tl.load(listed)
    for step in range(whole * TILES_PER_BLOCK):
        # Asked for here so that it has arrived when the next tile's address is needed.
        following = tl.load(listed + tl.minimum((step + 1) // TILES_PER_BLOCK, count - 1))
        part = step % TILES_PER_BLOCK * KEYS
        start = block * (KEYS * TILES_PER_BLOCK) + part
        k_tile = load_tile(k, k_steps, place, start, num_keys, HEAD_DIM, KEYS, TMA, False)
        products = multiply(q_rows, tl.trans(k_tile), WIDE)
        if PADDED:
            real = part + tl.arange(0, KEYS) < tl.load(key_sizes + block)
            products = tl.where(real[None, :], products, -1e30)
        v_tile = load_tile(v, v_steps, place, start, num_keys, HEAD_DIM, KEYS, TMA, False)
        highest, total, acc = absorb(products, scale, v_tile, highest, total, acc, WIDE)
        block = following
    if RAGGED:
        for step in tl.range(0, (count - whole) * TILES_PER_BLOCK, num_stages=1):
            start = (num_blocks - 1) * (KEYS * TILES_PER_BLOCK) + step * KEYS
            k_tile = load_tile(k, k_steps, place, start, num_keys, HEAD_DIM, KEYS, TMA, True)
            products = multiply(q_rows, tl.trans(k_tile), WIDE)
            real = start + tl.arange(0, KEYS) < num_keys
            if PADDED:
                size = tl.load(key_sizes + num_blocks - 1)
                real = real & (step * KEYS + tl.arange(0, KEYS) < size)
            products = tl.where(real[None, :], products, -1e30)
            v_tile = load_tile(v, v_steps, place, start, num_keys, HEAD_DIM, KEYS, TMA, True)
            highest, total, acc = absorb(products, scale, v_tile, highest, total, acc, WIDE)
    return highest, total, acc


@triton.jit
def read_proxies(
    state, q_rows, squares, keys, values, variances, sizes, place, words, scale, heads, num_blocks,
    HEAD_DIM: tl.constexpr, PROXIES: tl.constexpr, COMPENSATE: tl.constexpr,
    TMA: tl.constexpr, WIDE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Take the proxies of all blocks that a row does not read into a running softmax.

    squares  of the rows, from `half_squares`, where COMPENSATE is 2
    """
    highest, total, acc = state
    steps = (num_blocks * HEAD_DIM * heads, num_blocks * HEAD_DIM, HEAD_DIM)
    for start in tl.range(0, num_blocks, PROXIES, num_stages=STAGES):
        key_tile = load_tile(keys, steps, place, start, num_blocks, HEAD_DIM, PROXIES, TMA, True)
        logits = multiply(q_rows, tl.trans(key_tile), WIDE) * scale
        if COMPENSATE == 2:
            spread = load_tile(variances, steps, place, start, num_blocks,
                               HEAD_DIM, PROXIES, TMA, True)  # fmt: skip
            logits += multiply(squares, tl.trans(spread), WIDE)
        logits += proxy_bias(words, sizes, start, num_blocks, PROXIES)[None, :]
        value_tile = load_tile(values, steps, place, start, num_blocks,
                               HEAD_DIM, PROXIES, TMA, True)  # fmt: skip
        highest, total, acc = absorb(logits, 1.0, value_tile, highest, total, acc, WIDE)
    return highest, total, acc


@triton.jit
def load_tile(
    x, steps, place, start, length,
    HEAD_DIM: tl.constexpr, TOKENS: tl.constexpr, TMA: tl.constexpr, MASKED: tl.constexpr,
    POLICY: tl.constexpr = "",
):  # fmt: skip
    """Load consecutive tokens of one head [TOKENS, HEAD_DIM]; past the end there are zeros."""
    if TMA:
        box = x.load([place[0].to(tl.int32), place[1].to(tl.int32), start, 0])
        tile = box.reshape(TOKENS, HEAD_DIM)
    else:
        token = tl.arange(0, TOKENS)
        first = x + place[0] * steps[0] + place[1] * steps[1] + tl.cast(start, tl.int64) * steps[2]
        cells = first + token[:, None] * steps[2] + tl.arange(0, HEAD_DIM)[None, :]
        if MASKED:
            inside = (start + token < length)[:, None]
            tile = tl.load(cells, mask=inside, other=0.0, eviction_policy=POLICY)
        else:
            tile = tl.load(cells)
    return tile


@triton.jit
def multiply(a, b, WIDE: tl.constexpr):
    """Return the matrix product in float32."""
    if WIDE:
        product = tl.dot(a.to(tl.float32), b.to(tl.float32), input_precision="ieee")
    else:
        product = tl.dot(a, b)
    return product


@triton.jit
def absorb(products, factor, values, highest, total, acc, WIDE: tl.constexpr):
    """Take one tile of logits (products * factor, base 2) and its values into a running softmax."""
    higher = tl.maximum(highest, tl.max(products, 1) * factor)
    weights = tl.exp2(products * factor - higher[:, None])
    shrink = tl.exp2(highest - higher)
    total = total * shrink + tl.sum(weights, 1)
    acc = acc * shrink[:, None]
    if WIDE:
        acc += tl.dot(weights, values.to(tl.float32), input_precision="ieee")
    else:
        acc = tl.dot(weights.to(values.dtype), values, acc)
    return higher, total, acc


@triton.jit
def half_squares(q_rows, scale, WIDE: tl.constexpr):
    """Return what, times the keys' variances, is scale^2 / 2 * sum(q^2 * variance) in base 2."""
    # `scale` holds log2(e) already and is squared, so one factor of it is taken out again.
    scaled = q_rows.to(tl.float32) * scale
    squares = scaled * scaled * (0.5 * 0.6931471805599453)
    if not WIDE:
        if q_rows.dtype == tl.float16:
            squares = tl.minimum(squares, 65504.0)
        squares = squares.to(q_rows.dtype)
    return squares


@triton.jit
def proxy_bias(words, sizes, start, num_blocks, PROXIES: tl.constexpr):
    """Return log2 of the proxies' sizes, and -inf for blocks that the row reads."""
    block = start + tl.arange(0, PROXIES)
    inside = block < num_blocks
    word = tl.load(words + (block >> 5), mask=inside, other=-1)
    size = tl.load(sizes + block, mask=inside, other=1)
    read = (word >> (block & 31)) & 1
    return tl.where(read == 0, tl.log2(size.to(tl.float32)), float("-inf"))


@triton.jit(do_not_specialize=["length", "list_sq", "num_words"])
def mark_read(blocks, words, length, list_sq, num_words, WORDS: tl.constexpr, PLACES: tl.constexpr):
    """Turn one list of blocks into bits: bit j % 32 of word j // 32 says that block j is read."""
    row = tl.program_id(0).to(tl.int64)
    word = tl.arange(0, WORDS)
    found = tl.zeros([WORDS], tl.int32)
    for start in range(0, length, PLACES):
        listed = start + tl.arange(0, PLACES)
        block = tl.load(blocks + row * list_sq + listed, mask=listed < length, other=-1)
        # A list holds no block twice, so that a sum of its bits joins them. -1 has no word.
        bits = tl.where((block >> 5)[None, :] == word[:, None], (1 << (block & 31))[None, :], 0)
        found += tl.sum(bits, 1)
    tl.store(words + row * num_words + word, found, mask=word < num_words)
