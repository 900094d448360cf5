"""Block-sparse attention on the CPU, in plain torch: gather the blocks that are read, then multiply
them as one dense piece.

Keys and values of a head lie in tables of one row per block, and proxies in rows of their own; so
one gather, two products and one softmax serve a whole group of query blocks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from attention.errors import AttentionError
from attention.proxies import Proxies
from attention.selection import Selection

# b batch  h heads  n query tokens  m key tokens  d head dim  q query blocks  k key blocks
# t rows of a table  x values of a row  s places in a list  g query blocks of a group
# i query tokens of a block  c columns of a group: p of proxies, then its keys

_GATHERED_BYTES = 2**19  # of keys; more does not stay in a core's own cache
_MOST_FILL = 1.5  # columns computed over columns needed, in groups whose lists differ in length


def attend_cpu(
    q_bhnd: Tensor,
    k_bhmd: Tensor,
    v_bhmd: Tensor,
    selection: Selection,
    proxies: Proxies | None = None,
    *,
    scale: float | None = None,
) -> Tensor:
    """Compute what `attend_reference` does; only the result is rounded to q's dtype.

    Beside the result it needs about as much memory as one head's queries, keys and values.
    """
    selection.check(q_bhnd, k_bhmd, v_bhmd)
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q_bhnd, k_bhmd, v_bhmd)):
        raise AttentionError("This attention has no gradient; call it under torch.no_grad().")
    scale = q_bhnd.shape[-1] ** -0.5 if scale is None else scale
    tables = _Tables(k_bhmd, selection, proxies)
    list_heads = selection.blocks_bhqs.shape[:2]
    out_bhnd = torch.empty_like(q_bhnd)
    made: tuple[tuple[int, int], _Lists] | None = None
    for b in range(q_bhnd.shape[0]):
        for h in range(q_bhnd.shape[1]):
            own = (b % list_heads[0], h % list_heads[1])
            if made is None or made[0] != own:
                made = own, _make_lists(selection, own, tables)
            tables.fill(k_bhmd[b, h], v_bhmd[b, h], proxies, (b, h))
            _attend_head(q_bhnd[b, h], out_bhnd[b, h], scale, tables, made[1])
    return out_bhnd


class _Tables:
    """One head's keys and values, set anew for each head.

    Rows: proxies, as many to a row as a block has tokens; the key blocks; one row of nothing, for
    lists shorter than others. Plain inputs that need neither first nor last are used as they lie.

    keys_tx, values_tx  [t, key_block * d], zero where there is no token
    absent_tj           0, or -inf where there is no token [t, key_block]
    log_sizes_p         of the blocks that the proxies stand for, -inf beyond the last
    variances_dp        of their keys, if asked for
    """

    def __init__(self, k_bhmd: Tensor, selection: Selection, proxies: Proxies | None) -> None:
        block, num_blocks, dim = selection.key_block, selection.key_blocks, k_bhmd.shape[-1]
        dtype = torch.float64 if k_bhmd.dtype == torch.float64 else torch.float32
        self.dim, self.block, self.num_blocks = dim, block, num_blocks
        self.proxy_rows = 0 if proxies is None else -(-num_blocks // block)
        self.nothing = self.proxy_rows + num_blocks
        even = bool((selection.counts_bhq == selection.counts_bhq.max()).all())
        self.as_they_lie = proxies is None and even and selection.num_keys % block == 0
        rows = 0 if self.as_they_lie else self.nothing + 1
        self.keys_tx = torch.zeros(rows, block * dim, dtype=dtype)
        self.values_tx = torch.zeros_like(self.keys_tx)
        self.absent_tj = torch.zeros(self.nothing + 1, block, dtype=dtype)
        present = torch.arange(block) < selection.sizes_k()[:, None]
        self.absent_tj[self.proxy_rows : self.nothing].masked_fill_(~present, -torch.inf)
        self.absent_tj[self.nothing] = -torch.inf
        self.log_sizes_p: Tensor | None = None
        self.variances_dp: Tensor | None = None
        if proxies is not None:
            beyond = self.proxy_rows * block - num_blocks
            self.log_sizes_p = pad(proxies.sizes_k.to(dtype).log(), (0, beyond), value=-torch.inf)
            if proxies.variances_bhkd is not None:
                self.variances_dp = torch.zeros(dim, self.proxy_rows * block, dtype=dtype)

    def fill(
        self, k_md: Tensor, v_md: Tensor, proxies: Proxies | None, head: tuple[int, int]
    ) -> None:
        """Put a head's keys, values and proxies in."""
        if self.as_they_lie:
            self.keys_tx = _cut(k_md, self.block, self.keys_tx.dtype).flatten(1)
            self.values_tx = _cut(v_md, self.block, self.keys_tx.dtype).flatten(1)
            return
        start = self.proxy_rows * self.block
        for table_tx, x_md in ((self.keys_tx, k_md), (self.values_tx, v_md)):
            table_tx.view(-1, self.dim)[start : start + len(x_md)] = x_md
        if proxies is None:
            return
        self.keys_tx.view(-1, self.dim)[: self.num_blocks] = proxies.keys_bhkd[head]
        self.values_tx.view(-1, self.dim)[: self.num_blocks] = proxies.values_bhkd[head]
        if self.variances_dp is not None and proxies.variances_bhkd is not None:
            self.variances_dp[:, : self.num_blocks] = proxies.variances_bhkd[head].mT


def _cut(x_nd: Tensor, block: int, dtype: torch.dtype) -> Tensor:
    """Return tokens as [blocks, block, d], the last filled up with zeros; a view if possible."""
    missing = -len(x_nd) % block
    whole_nd = pad(x_nd, (0, 0, 0, missing)) if missing else x_nd
    return whole_nd.to(dtype).contiguous().view(-1, block, x_nd.shape[-1])


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive query blocks computed together: `start` to `stop`.

    places  rows of the table that each reads, fill included
    masked  whether some of those hold keys that are not there
    """

    start: int
    stop: int
    places: int
    masked: bool


@dataclass(frozen=True, slots=True)
class _Lists:
    """What the query blocks of a head read.

    places_qs  rows of the tables: those of the proxies, then the blocks, then the row of nothing
    proxies_qp added to the products with proxies: log of the size, -inf where the block is read
    """

    places_qs: Tensor
    proxies_qp: Tensor | None
    groups: tuple[_Group, ...]
    query_block: int


def _make_lists(selection: Selection, own: tuple[int, int], tables: _Tables) -> _Lists:
    blocks_qs = selection.blocks_bhqs[own]
    counts = selection.counts_bhq[own].tolist()
    blocks_qs = blocks_qs[:, : max(counts)]
    first = tables.proxy_rows
    places_qs = torch.where(blocks_qs < 0, tables.nothing, blocks_qs + first)
    partial_t = tables.absent_tj.lt(0).any(dim=1)
    partial_t[tables.nothing] = False
    partial = partial_t[places_qs].any(dim=1).tolist()
    proxies_qp = None
    if tables.log_sizes_p is not None:
        proxies_qp = tables.log_sizes_p.expand(len(counts), -1).clone()
        # The fill of short lists lands in one column too many, which is cut off.
        read_qk = torch.zeros(len(counts), tables.num_blocks + 1, dtype=torch.bool)
        read_qk.scatter_(1, blocks_qs.long().remainder(tables.num_blocks + 1), True)
        proxies_qp[:, : tables.num_blocks].masked_fill_(read_qk[:, :-1], -torch.inf)
        always = torch.arange(first, dtype=places_qs.dtype).expand(len(counts), -1)
        places_qs = torch.cat([always, places_qs], dim=1)
    room = _GATHERED_BYTES // (tables.keys_tx.shape[1] * tables.keys_tx.element_size())
    groups = _groups([count + first for count in counts], partial, room)
    return _Lists(places_qs, proxies_qp, groups, selection.query_block)


def _groups(counts: list[int], partial: list[bool], room: int) -> tuple[_Group, ...]:
    """Cut the query blocks into groups of at most `room` places, or of one block."""
    found = []
    start, most, total = 0, 0, 0
    for index, count in enumerate([*counts, 0]):
        size = (index - start + 1) * max(most, count)
        full = size > room or size > _MOST_FILL * (total + count)
        if index > start and (full or index == len(counts)):
            uneven = total < (index - start) * most
            found.append(_Group(start, index, most, uneven or any(partial[start:index])))
            start, most, total = index, 0, 0
        most, total = max(most, count), total + count
    return tuple(found)


def _attend_head(
    q_nd: Tensor, out_nd: Tensor, scale: float, tables: _Tables, lists: _Lists
) -> None:
    """Compute one head."""
    dtype, dim, size = tables.keys_tx.dtype, tables.dim, lists.query_block
    q_qid = _cut(q_nd, size, dtype)
    direct = out_nd.dtype == dtype and out_nd.is_contiguous() and len(out_nd) % size == 0
    out_qid = out_nd.view(-1, size, dim) if direct else torch.empty_like(q_qid)
    places = max((group.stop - group.start) * group.places for group in lists.groups)
    gathered = torch.empty(places, tables.keys_tx.shape[1], dtype=dtype)
    scores = torch.empty(places * tables.block * size, dtype=dtype)
    for group in lists.groups:
        count, columns = group.stop - group.start, group.places * tables.block
        rows = lists.places_qs[group.start : group.stop, : group.places].flatten()
        q_gid = q_qid[group.start : group.stop]
        scores_gic = scores[: count * size * columns].view(count, size, columns)
        keys_gcd = _gather(tables.keys_tx, rows, gathered).view(count, columns, dim)
        torch.baddbmm(scores_gic, q_gid, keys_gcd.mT, beta=0, alpha=scale, out=scores_gic)
        _mask(scores_gic, q_gid, group, scale, tables, lists)
        torch.softmax(scores_gic, dim=-1, out=scores_gic)
        values_gcd = _gather(tables.values_tx, rows, gathered).view(count, columns, dim)
        torch.bmm(scores_gic, values_gcd, out=out_qid[group.start : group.stop])
    if not direct:
        out_nd.copy_(out_qid.view(-1, dim)[: len(out_nd)])


def _gather(table_tx: Tensor, rows: Tensor, out: Tensor) -> Tensor:
    return torch.index_select(table_tx, 0, rows, out=out[: len(rows)])


def _mask(
    scores_gic: Tensor,
    q_gid: Tensor,
    group: _Group,
    scale: float,
    tables: _Tables,
    lists: _Lists,
) -> None:
    """Weigh the proxies, and take out keys that are not there."""
    columns_p = tables.proxy_rows * tables.block
    if lists.proxies_qp is not None:
        scores_gic[..., :columns_p] += lists.proxies_qp[group.start : group.stop, None]
    if tables.variances_dp is not None:
        proxies_np = scores_gic.flatten(0, 1)[:, :columns_p]
        proxies_np.addmm_(q_gid.square().flatten(0, 1), tables.variances_dp, alpha=0.5 * scale**2)
    if group.masked:
        places_gs = lists.places_qs[group.start : group.stop, tables.proxy_rows : group.places]
        scores_gic[..., columns_p:] += tables.absent_tj[places_gs].flatten(1)[:, None]
