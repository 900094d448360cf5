"""AttentionPlan: what attention does in one run, decided from the request, the family and the host.

Plain data made without torch; `vidgen.sparse` carries it out.
"""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attention import AttentionError, Dense, Grid, Host, Sla, TopK, Vsa, Window, choose
from attention.choose import Choice, Pattern
from vidgen.adjustment import Adjustment
from vidgen.budgets import BUDGETS_FILE, Recall, divide, load_budgets, recall_for
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest
from vidgen.flops import TRANSFORMER_DEFAULTS, VACE_DEFAULTS, filled, vace_blocks
from vidgen.home import expanded
from vidgen.models import Model
from vidgen.request import VideoRequest

if TYPE_CHECKING:
    from attention import Layout

# What acts only where attention is sparse, and of that what only TopK knows.
_SPARSE_FIELDS = (
    "density", "dense_steps", "dense_layers", "sink_frames", "min_tokens", "query_block",
    "key_block", "compensate", "top_p",
)  # fmt: skip
_TOPK_FIELDS = ("compensate", "top_p", "sink_frames")


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What attention does in one run, complete.

    pattern       which keys are read
    backend       who computes it, and `reason` why
    query_block, key_block, order, sink_frames   see attention.Layout
    dense_above   noise level above which every key is read, 0..1; 1 for none
    dense_layers  layers that always read every key
    reuse_steps   steps that share one selection, >= 1
    budgets_of    fingerprint of the weights that the pattern's budgets were measured on
    """

    pattern: Pattern
    backend: str
    reason: str
    query_block: int = 128
    key_block: int = 64
    order: Literal["raster", "hilbert"] = "hilbert"
    sink_frames: int = 0
    dense_above: float = 1.0
    dense_layers: tuple[int, ...] = ()
    reuse_steps: int = 1
    budgets_of: str | None = None

    def check_weights(self, weights: str) -> None:
        """Raise BadRequest if the budgets were measured on other weights than a model's."""
        if self.budgets_of not in (None, weights):
            raise BadRequest(
                f"The budgets were measured on other weights ({self.budgets_of}) than are loaded "
                f"({weights}); measure them anew with `vidgen budgets` or use budgets=uniform.",
                field="budgets",
            )

    @property
    def name(self) -> str:
        """The request's word for the pattern."""
        return type(self.pattern).__name__.lower()

    @property
    def summary(self) -> str:
        """Pattern, density and backend in a few words."""
        if isinstance(self.pattern, TopK | Window):
            return f"{self.name} {100 * self.pattern.density:g} %, {self.backend}"
        return f"{self.name}, {self.backend}"

    def is_dense_at(self, sigma: float) -> bool:
        """Whether a forward at a noise level reads every key."""
        return isinstance(self.pattern, Dense) or sigma > self.dense_above

    def layout(self, grid: Grid) -> "Layout":
        """Return how a grid's tokens are ordered and cut."""
        from attention import Layout

        return Layout(
            grid,
            query_block=self.query_block,
            key_block=self.key_block,
            order=self.order,
            sink_frames=min(self.sink_frames, grid.frames),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready data; `sparse` is empty where every key is read."""
        return {
            "attention": self.name,
            "attention_backend": self.backend,
            "attention_reason": self.reason,
            "sparse": self._sparse(),
        }

    def _sparse(self) -> dict[str, Any]:
        pattern = self.pattern
        if isinstance(pattern, Dense):
            return {}
        if not isinstance(pattern, TopK | Window):
            return dataclasses.asdict(pattern)
        found: dict[str, Any] = {
            "density": pattern.density,
            "query_block": self.query_block,
            "key_block": self.key_block,
            "order": self.order,
            "sink_frames": self.sink_frames,
            "dense_above": round(self.dense_above, 6),
            "dense_layers": list(self.dense_layers),
        }
        if isinstance(pattern, Window):
            return {**found, "frame_cells": pattern.frame_cells}
        return {
            **found,
            "compensate": pattern.compensate,
            "score": pattern.score,
            "sub_block": pattern.sub_block,
            "neighbours": pattern.neighbours,
            "top_p": pattern.top_p,
            "budgets": _named(pattern.budgets),
            "reuse_steps": self.reuse_steps,
        }


def plan_attention(
    request: VideoRequest,
    model: Model,
    grid: Grid,
    device: DeviceProfile,
    *,
    dtype: str,
    flow_shift: float,
    starts_given: bool,
    found: list[Adjustment],
) -> AttentionPlan:
    """Decide what attention does.

    grid          of one forward, without reference frames
    starts_given  the clip's first frames are given
    found         gets an adjustment when the clip is too short to be sparse
    Raises        BadRequest for what cannot run, or acts only where attention is something else
    """
    word = _word(request, model)
    _refuse_unused(request, word)
    defaults = model.family.sparse
    pattern = _pattern(word, request, model)
    blocks = (
        _or(request.query_block, defaults.query_block),
        _or(request.key_block, defaults.key_block),
    )
    dense_layers = _layers(_or(request.dense_layers, defaults.dense_layers), num_layers(model))
    recall = None
    if isinstance(pattern, TopK):
        recall = _recall(request, model, grid, blocks)
        budgets = _divided(recall, pattern.density, dense_layers, model)
        pattern = dataclasses.replace(pattern, budgets=budgets)
    choice = _choice(pattern, request, model, grid, device, dtype, found)
    if not isinstance(choice.pattern, TopK | Window):
        return AttentionPlan(choice.pattern, choice.backend, choice.reason)
    sink = defaults.sink_frames if starts_given and isinstance(pattern, TopK) else 0
    return AttentionPlan(
        pattern=choice.pattern,
        backend=choice.backend,
        reason=choice.reason,
        query_block=blocks[0],
        key_block=blocks[1],
        sink_frames=_sinks(request, sink, grid),
        dense_above=noise_level(_or(request.dense_steps, defaults.dense_steps), flow_shift),
        dense_layers=dense_layers,
        budgets_of=None if recall is None else recall.weights,
    )


def _choice(
    pattern: Pattern,
    request: VideoRequest,
    model: Model,
    grid: Grid,
    device: DeviceProfile,
    dtype: str,
    found: list[Adjustment],
) -> Choice:
    """Choose the backend; a clip too short to be sparse is an adjustment of all that it changes."""
    host = Host(device.kind, device.capability, frozenset(device.backends), dict(device.problems))
    asked = request.attention_backend
    try:
        choice = choose(
            pattern,
            host,
            tokens=grid.tokens,
            head_dim=int(model.configs.transformer.get("attention_head_dim", 128)),
            dtype=dtype,
            asked=asked,
            min_tokens=_or(request.min_tokens, model.family.sparse.min_tokens),
        )
    except AttentionError as error:
        raise BadRequest(str(error), field=error.field) from None
    if isinstance(choice.pattern, Dense) and not isinstance(pattern, Dense):
        word = type(pattern).__name__.lower()
        found.append(Adjustment("attention", word, "dense", choice.reason))
        if asked not in ("auto", choice.backend):
            why = f"{asked} computes sparse attention only"
            found.append(Adjustment("attention_backend", asked, choice.backend, why))
    return choice


def num_layers(model: Model) -> int:
    """Return the blocks of a transformer, those of a VACE branch not counted."""
    return int(filled(model.configs.transformer, TRANSFORMER_DEFAULTS)["num_layers"])


def layers_of(model: Model) -> tuple[int, ...]:
    """Return the layer of every self-attention of a run, in the order of a budgets file's rows.

    For each expert its blocks, then the control blocks of VACE, which have a layer of the blocks'.
    """
    config = model.configs.transformer
    control = filled(config, VACE_DEFAULTS)["vace_layers"] if vace_blocks(config) else ()
    return (*range(num_layers(model)), *control) * model.family.experts


def _sinks(request: VideoRequest, default: int, grid: Grid) -> int:
    if request.sink_frames is not None and request.sink_frames > grid.frames:
        raise BadRequest(
            f"sink_frames={request.sink_frames} is more than the clip's {grid.frames} latent "
            f"frames; use 0 to {grid.frames}.",
            field="sink_frames",
        )
    return min(default, grid.frames) if request.sink_frames is None else request.sink_frames


def _or(asked: Any, default: Any) -> Any:
    return default if asked is None else asked


def _word(request: VideoRequest, model: Model) -> str:
    """Return the word for what attention shall do.

    Raises  BadRequest where the weights were trained for something else
    """
    native = None if model.trained is None else type(model.trained).__name__.lower()
    word = request.attention or native or "dense"
    if native is not None and word != native:
        raise BadRequest(
            f"attention={word} is not what {model.name} was trained with; leave it out or use "
            f"attention={native}.",
            field="attention",
        )
    if native is None and word in ("vsa", "sla"):
        raise BadRequest(
            f"attention={word} needs a checkpoint that was trained with it, and {model.name} has "
            "no weights for it; use the folder of such a checkpoint, or attention=topk.",
            field="attention",
        )
    return word


def _pattern(word: str, request: VideoRequest, model: Model) -> Pattern:
    defaults = model.family.sparse
    if word == "dense":
        return Dense()
    if isinstance(model.trained, Vsa):
        return model.trained if request.density is None else Vsa(1 - request.density)
    if isinstance(model.trained, Sla):
        return model.trained if request.density is None else Sla(request.density)
    density = _or(request.density, defaults.density)
    if word == "window":
        return Window(density)
    return TopK(
        density,
        compensate=_or(request.compensate, defaults.compensate),
        sub_block=defaults.sub_block,
        score=defaults.score,
        top_p=request.top_p,
    )


def _recall(
    request: VideoRequest, model: Model, grid: Grid, blocks: tuple[int, int]
) -> Recall | None:
    """Return what is known of the model's heads, None where all get one density."""
    auto = request.budgets == "auto"
    if request.budgets == "uniform" or (auto and not model.family.sparse.own_budgets):
        return None
    path = expanded(request.budgets)
    if request.budgets in ("auto", "own"):
        if model.folder is None or not (model.folder / BUDGETS_FILE).is_file():
            if auto:
                return None
            raise BadRequest(
                f"{model.name} has no budgets of its own; measure them with `vidgen budgets` or "
                "use budgets=uniform.",
                field="budgets",
            )
        path = model.folder / BUDGETS_FILE
    recalls = load_budgets(path)
    recall = recall_for(recalls, model.name, grid, *blocks)
    if recall is None and not auto:
        known = ", ".join(f"{entry.model} {entry.grid}" for entry in recalls) or "nothing"
        raise BadRequest(
            f"{path} has no budgets for {model.name} at {grid} tokens in blocks of "
            f"{blocks[0]}x{blocks[1]} (it has {known}); measure them with `vidgen budgets` or use "
            "budgets=uniform.",
            field="budgets",
        )
    if recall is not None and len(recall.kept) != len(layers_of(model)):
        raise BadRequest(
            f"{path} has budgets of {len(recall.kept)} self-attentions for {model.name}, which has "
            f"{len(layers_of(model))}; measure them anew with `vidgen budgets` or use "
            "budgets=uniform.",
            field="budgets",
        )
    return recall


def _divided(
    recall: Recall | None, density: float, dense_layers: tuple[int, ...], model: Model
) -> tuple[tuple[float, ...], ...] | None:
    """Return a density for each self-attention and head, none for layers that stay dense.

    The mean of each expert is the density, however many of the steps are its own.
    """
    if recall is None:
        return None
    layers = layers_of(model)
    kept = [
        () if layer in dense_layers else row for layer, row in zip(layers, recall.kept, strict=True)
    ]
    rows = len(layers) // model.family.experts
    divided: list[tuple[float, ...]] = []
    for start in range(0, len(kept), rows):
        expert = dataclasses.replace(recall, kept=tuple(kept[start : start + rows]))
        divided += divide(expert, density)
    return tuple(divided)


def _named(budgets: tuple[tuple[float, ...], ...] | None) -> str:
    """Return what a recipe says of budgets: enough to see that they changed."""
    if budgets is None:
        return "uniform"
    return f"per head {hashlib.sha256(json.dumps(budgets).encode()).hexdigest()[:12]}"


def _refuse_unused(request: VideoRequest, word: str) -> None:
    """Raise for options that would do nothing."""
    trained = tuple(name for name in _SPARSE_FIELDS if name != "density")
    unused = {"dense": _SPARSE_FIELDS, "window": _TOPK_FIELDS, "topk": ()}.get(word, trained)
    given = [(name, getattr(request, name)) for name in unused]
    if word != "topk" and request.budgets != "auto":
        given.append(("budgets", request.budgets))
    for name, value in given:
        if value is not None:
            ways = "topk" if name in (*_TOPK_FIELDS, "budgets") else "topk or window"
            raise BadRequest(
                f"{name}={value} does nothing with attention={word}; leave it out or use "
                f"attention={ways}.",
                field=name,
            )


def _layers(asked: tuple[int, ...], layers: int) -> tuple[int, ...]:
    wrong = [layer for layer in asked if not 0 <= layer < layers]
    if wrong:
        raise BadRequest(
            f"dense_layers={wrong[0]} is outside 0..{layers - 1}, the model's layers.",
            field="dense_layers",
        )
    return tuple(sorted(set(asked)))


def noise_level(share: float, shift: float) -> float:
    """Return the noise level at which a flow schedule stands after a share of its steps."""
    left = 1 - share
    return shift * left / (1 + (shift - 1) * left)
