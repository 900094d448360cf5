"""SparseSession: block-sparse self-attention attached to a diffusers transformer, and taken off.

It permutes the tokens once per forward, replaces the processors of self-attention and nothing else,
and leaves the model as it was. It knows modules and tensors; what to do comes from AttentionPlan.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from attention import (
    Dense,
    Grid,
    Layout,
    Selection,
    TopK,
    Window,
    executor,
    inverse_order,
    layout_order,
    make_proxies,
    select,
)
from attention.executors import Executor
from attention.layout import block_sizes, priorities
from attention.router import RowCounts, Scorer, row_counts, scorer, window
from attention.trained import Prepared, Trained, attend_trained, prepare
from vidgen.attention_plan import AttentionPlan
from vidgen.density import Density
from vidgen.projections import output, projected, self_attentions
from vidgen.trained_sparse import ExtraWeights

# b batch  n tokens  h heads  d head dim  c channels

TRAIN_TIMESTEPS = 1000.0

Clock = Callable[[Any], "Moment"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in a run a forward stands.

    step    denoising steps done before it
    sigma   noise level, 1 pure noise .. 0 clean
    branch  0 with the prompt, 1 without
    """

    step: int
    sigma: float
    branch: int = 0


class SparseSession:
    """Sparse attention on the transformers of one run.

        with SparseSession(plan, clock).attached(transformer):
            transformer(...)

    clock  tells where in the run a forward stands; without one, the noise level is read from the
           forward's own timestep, which waits for the device
    extra  of each transformer, the weights that a trained pattern adds, from
           `read_extra_weights`; they go to the transformer's device and dtype with its first
           forward and stay there as long as the session
    """

    def __init__(
        self, plan: AttentionPlan, clock: Clock | None = None, extra: Sequence[ExtraWeights] = ()
    ) -> None:
        self.plan = plan
        self.density = Density()
        self._clock = clock
        self._execute: Executor | None = None
        if not isinstance(plan.pattern, Dense):
            self._execute = executor(plan.backend)
        self._extra = extra
        self._moved: dict[LayerPlace, dict[str, Tensor]] = {}
        self._layouts: dict[tuple[Grid, torch.device], _Places] = {}
        self._kept: dict[tuple[LayerPlace, int], tuple[int, Selection]] = {}
        self._places: _Places | None = None
        self._dense_pairs = 0
        self._rows: dict[LayerPlace, int] = {}  # of a budgets file, one for each self-attention
        self._moment = Moment(0, 1.0)

    @contextmanager
    def attached(self, *transformers: nn.Module) -> Iterator["SparseSession"]:
        """Attach to the transformers; whatever happens, they are as before afterwards."""
        places = (
            LayerPlace(number, index)
            for number, transformer in enumerate(transformers)
            for index in range(len(self_attentions(transformer)))
        )
        self._rows = {place: row for row, place in enumerate(places)}
        with ExitStack() as stack:
            for number, transformer in enumerate(transformers):
                _attach(transformer, self, number, stack)
            yield self

    def begin(self, transformer: Any, hidden: Tensor, timestep: Tensor) -> None:
        """Take note of the forward that begins: its grid, its moment, whether it is sparse."""
        if self._clock is not None:
            self._moment = self._clock(transformer)
        else:
            self._moment = Moment(0, float(timestep.max()) / TRAIN_TIMESTEPS)
        self._places = None
        grid = _grid_of(transformer, hidden)
        if self.plan.is_dense_at(self._moment.sigma):
            layout = self.plan.layout(grid)
            self._dense_pairs = layout.query_blocks * layout.key_blocks
        else:
            head_dim = transformer.config.attention_head_dim
            self._places = self._placed(grid, head_dim, hidden.device)
            self._dense_pairs = self._places.pairs

    @property
    def sparse(self) -> bool:
        """Whether the forward under way is sparse."""
        return self._places is not None

    @property
    def layout(self) -> Layout:
        """The layout of the sparse forward under way."""
        assert self._places is not None
        return self._places.layout

    def to_order(self, x: Tensor) -> Tensor:
        """Bring the token axis (1) of a tensor into the session's order."""
        return x if self._places is None else x.index_select(1, self._places.order_n)

    def from_order(self, x: Tensor) -> Tensor:
        """Undo `to_order`."""
        return x if self._places is None else x.index_select(1, self._places.inverse_n)

    def attend(self, q_bnhd: Tensor, k_bnhd: Tensor, v_bnhd: Tensor, layer: "LayerPlace") -> Tensor:
        """Return sparse attention [b, n, h, d] of one layer."""
        assert self._places is not None
        assert self._execute is not None
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        places = self._places
        selection = self.selected(q, k, layer)
        pattern = self.plan.pattern
        compensate = pattern.compensate if isinstance(pattern, TopK) else "none"
        proxies = make_proxies(k, v, places.layout.key_block, compensate, places.sizes_k)
        out = self._execute(q, k, v, selection, proxies)
        self.density.add(selection, places.pairs * q.shape[0] * q.shape[1])
        return out.transpose(1, 2)

    @property
    def trained(self) -> bool:
        """Whether the sparse forward under way needs `attend_trained` instead of `attend`."""
        return self._places is not None and self._places.prepared is not None

    def attend_trained(
        self,
        q_bnhd: Tensor,
        k_bnhd: Tensor,
        v_bnhd: Tensor,
        hidden_bnc: Tensor,
        layer: "LayerPlace",
    ) -> Tensor:
        """Return the attention [b, n, h, d] that the weights of one layer were trained with.

        hidden_bnc  what q, k and v were projected from
        """
        assert self._places is not None
        assert self._places.prepared is not None
        assert self._execute is not None
        q, k, v = (x.transpose(1, 2) for x in (q_bnhd, k_bnhd, v_bnhd))
        weights, places = self._weights(layer, hidden_bnc), self._places.prepared
        out, selection = attend_trained(places, q, k, v, hidden_bnc, weights, self._execute)
        self.density.add(selection, places.pairs * q.shape[0] * q.shape[1])
        return out.transpose(1, 2)

    def note_dense(self, batch: int, heads: int) -> None:
        """Count a layer that ran dense."""
        self.density.add_dense(self._dense_pairs * batch * heads)

    def selected(self, q: Tensor, k: Tensor, layer: "LayerPlace") -> Selection:
        """Return the lists of one layer [b, h, n, d]: new ones, or those of an earlier step."""
        assert self._places is not None
        places, pattern = self._places, self.plan.pattern
        if places.window is not None:
            return places.window
        assert isinstance(pattern, TopK)
        key, now = (layer, self._moment.branch), self._moment.step
        step, kept = self._kept.get(key, (-1, None))
        if kept is not None and step <= now < step + self.plan.reuse_steps:
            return kept
        row = self._rows[layer]
        if row not in places.counts:
            places.counts[row] = row_counts(places.layout, pattern, q.shape[1], q.device, row)
        selection = select(
            q,
            k,
            places.layout,
            pattern,
            first_kept=places.first_kept,
            score=places.score,
            counts=places.counts[row],
        )
        if self.plan.reuse_steps > 1:
            self._kept[key] = (now, selection)
        return selection

    def _weights(self, layer: "LayerPlace", like: Tensor) -> dict[str, Tensor]:
        """Return what a trained pattern adds to one layer, where that layer computes."""
        if not self._extra:
            return {}
        if layer not in self._moved:
            weights = self._extra[layer.transformer].get(layer.number, {})
            self._moved[layer] = {name: weight.to(like) for name, weight in weights.items()}
        return self._moved[layer]

    def _placed(self, grid: Grid, head_dim: int, device: torch.device) -> "_Places":
        key = (grid, device)
        if key not in self._layouts:
            layout, pattern = self.plan.layout(grid), self.plan.pattern
            order_n = layout_order(layout).to(device)
            sizes_k = block_sizes(layout.tokens, layout.key_block, device)
            first_kept = score = near = prepared = None
            if isinstance(pattern, TopK):
                first_kept = priorities(layout, pattern.neighbours).to(device)
                score = scorer(self.plan.backend, layout, pattern, head_dim, device)
            elif isinstance(pattern, Window):
                near = window(layout, pattern, device)
            elif isinstance(pattern, Trained):
                prepared = prepare(pattern, grid, device)
                order_n = prepared.order_n
            self._layouts[key] = _Places(
                layout, order_n, inverse_order(order_n), sizes_k, first_kept, score, near, prepared
            )
        return self._layouts[key]


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """A layout with its tensors on the device; what counts of a trained pattern is `prepared`.

    Made once for a run: a tensor that is made on the host and used on a GPU makes both wait.
    counts  of TopK, by row of the budgets; filled as layers ask
    window  of Window, whose lists depend on the layout alone
    """

    layout: Layout
    order_n: Tensor
    inverse_n: Tensor
    sizes_k: Tensor
    first_kept: Tensor | None
    score: Scorer | None
    window: Selection | None = None
    prepared: Prepared | None = None
    counts: dict[int, RowCounts] = field(default_factory=dict)

    @property
    def pairs(self) -> int:
        """Pairs of a query block and a key block."""
        if self.prepared is not None:
            return self.prepared.pairs
        return self.layout.query_blocks * self.layout.key_blocks


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """Which self-attention this is.

    transformer  the expert's number in the run
    number       among all of the expert: its blocks, then the control blocks of VACE
    """

    transformer: int
    number: int


class SparseProcessor:
    """Self-attention of a Wan block over the session's selection.

    Takes the place of `WanAttnProcessor` on `attn1`; in dense steps and layers it hands over to the
    processor it replaced.
    """

    _attention_backend = None
    _parallel_config = None

    def __init__(
        self, session: SparseSession, stock: Any, layer: LayerPlace, *, dense: bool
    ) -> None:
        self._session = session
        self._stock = stock
        self._layer = layer
        self._dense = dense

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        session = self._session
        if not session.sparse or self._dense:
            session.note_dense(hidden_states.shape[0], attn.heads)
            stocks_own: Tensor = self._stock(
                attn, hidden_states, encoder_hidden_states, attention_mask, rotary_emb
            )
            return stocks_own
        q_bnhd, k_bnhd, v_bnhd = projected(attn, hidden_states, rotary_emb)
        if session.trained:
            out = session.attend_trained(q_bnhd, k_bnhd, v_bnhd, hidden_states, self._layer)
        else:
            out = session.attend(q_bnhd, k_bnhd, v_bnhd, self._layer)
        return output(attn, out)


def _grid_of(transformer: Any, hidden: Tensor) -> Grid:
    frames, rows, columns = hidden.shape[2:]
    patch = transformer.config.patch_size
    return Grid(frames // patch[0], rows // patch[1], columns // patch[2])


def _attach(transformer: Any, session: SparseSession, number: int, stack: ExitStack) -> None:
    """Put hooks and processors on one transformer; the stack takes them off again.

    torch's own hooks run outside of whatever diffusers' caches and offloading wrap around a
    block's forward, so those see tokens in the session's order, consistently.
    """
    for index, (layer, attn) in enumerate(self_attentions(transformer)):
        stock = attn.processor
        place = LayerPlace(number, index)
        attn.processor = SparseProcessor(
            session, stock, place, dense=layer in session.plan.dense_layers
        )
        stack.callback(setattr, attn, "processor", stock)

    def before_model(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        bound = dict(zip(("hidden_states", "timestep"), args, strict=False)) | kwargs
        hidden, timestep = bound["hidden_states"], bound["timestep"]
        session.begin(module, hidden, timestep)
        if not session.sparse or timestep.ndim != 2:
            return None
        ordered = session.to_order(timestep)
        if "timestep" in kwargs:
            return args, {**kwargs, "timestep": ordered}
        return (args[0], ordered, *args[2:]), kwargs

    def after_rope(_module: Any, _args: Any, out: tuple[Tensor, Tensor]) -> Any:
        return tuple(session.to_order(part) for part in out)

    def before_block(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        args = (session.to_order(args[0]), *args[1:]) if args else args
        if "hidden_states" in kwargs:
            kwargs = {**kwargs, "hidden_states": session.to_order(kwargs["hidden_states"])}
        return args, kwargs

    def before_vace(_module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        hidden, text, control, *rest = args
        return (session.to_order(hidden), text, session.to_order(control), *rest), kwargs

    def after_out(_module: Any, _args: Any, out: Tensor) -> Tensor:
        return session.from_order(out)

    handles = [
        transformer.register_forward_pre_hook(before_model, with_kwargs=True),
        transformer.rope.register_forward_hook(after_rope),
        transformer.blocks[0].register_forward_pre_hook(before_block, with_kwargs=True),
        transformer.proj_out.register_forward_hook(after_out),
    ]
    if getattr(transformer, "vace_blocks", None):
        first = transformer.vace_blocks[0]
        handles.append(first.register_forward_pre_hook(before_vace, with_kwargs=True))
    for handle in handles:
        stack.callback(handle.remove)
