"""A plan for people: what will be made, what had to differ, what it is expected to cost."""

from collections.abc import Callable

from attention import TopK, Window
from vidgen.cli.report import clock, pairs
from vidgen.families import TASK_WORDS
from vidgen.plan import Plan
from vidgen.workload import Interval, Tiling

_TILINGS: dict[Tiling, str] = {
    "whole": "whole",
    "tiles": "in tiles",
    "whole_then_tiles": "whole, in tiles if memory runs out",
}


def plan_text(plan: Plan) -> str:
    """Return the whole plan as aligned lines."""
    size, cost = plan.size, plan.estimate
    written = f"{size.export_width}x{size.export_height}"
    made = f"{size.width}x{size.height}"
    rows = [
        ("model", f"{plan.model.name} ({plan.model.family.title})"),
        ("task", TASK_WORDS[plan.task]),
        ("device", f"{plan.device.title} (rates: {plan.device.rates.source})"),
        ("size", made if made == written else f"{made}, file {written}"),
        ("length", f"{plan.num_frames} frames at {plan.fps} fps, {float(plan.seconds):.3f} s"),
        ("seeds", ", ".join(str(seed) for seed in plan.seeds)),
        ("steps", _steps(plan)),
        ("guidance", _guidance(plan)),
        ("prompt", f"{plan.prompt_tokens} of {plan.text_length} tokens"),
        ("inputs", _inputs(plan)),
        ("loras", _loras(plan)),
        ("attention", _attention(plan)),
        ("numbers", f"{plan.dtype}, VAE {plan.vae_dtype}, decode {_TILINGS[plan.vae_tiling]}, "
                    f"offload {plan.offload}"),
        ("fidelity", plan.fidelity),
        ("tokens", f"{plan.grid.tokens:,} a forward"),
        ("work", f"{flops_text(cost.total_flops)} ({cost.bound}-bound)"),
        *((f"  {part}", flops_text(flops)) for part, flops in cost.flops.items() if flops),
        ("time", seconds_text(cost.seconds["total"])),
        *((f"  {part}", seconds_text(time)) for part, time in cost.seconds.items()
          if part != "total" and time.high),
        ("weights", bytes_text(sum(cost.weights_bytes.values()))),
        ("device memory", between(cost.device_bytes, bytes_text)),
        ("host memory", between(cost.host_bytes, bytes_text)),
        ("disk", between(cost.disk_bytes, bytes_text)),
    ]  # fmt: skip
    lines = [pairs([(name, value) for name, value in rows if value])]
    lines += [f"adjusted  {item}" for item in plan.adjustments]
    lines += [f"note      {text}" for text in (*plan.notes, *cost.notes)]
    if len(plan.seeds) > 1:
        lines.append(f"note      work, time and disk are for one of the {len(plan.seeds)} clips")
    return "\n".join(lines)


def _steps(plan: Plan) -> str:
    asked = "" if plan.steps == plan.num_inference_steps else f" of {plan.num_inference_steps}"
    return f"{plan.steps}{asked}, {plan.scheduler}, shift {plan.flow_shift:g}"


def _attention(plan: Plan) -> str:
    made = plan.attention
    parts = [f"{made.summary}: {made.reason}"]
    pattern = made.pattern
    if isinstance(pattern, TopK | Window):
        layers = ", ".join(str(layer) for layer in made.dense_layers) or "none"
        parts += [
            f"sparse in {100 * plan.sparse_part:.0f} % of the self-attentions, dense above noise "
            f"level {made.dense_above:.3f} and in layers {layers}",
            f"blocks {made.query_block}x{made.key_block}",
        ]
    if isinstance(pattern, TopK):
        parts.append(f"compensate {pattern.compensate}")
        parts += [f"top_p {pattern.top_p:g}"] if pattern.top_p is not None else []
        parts += ["budgets per head"] if pattern.budgets is not None else []
        parts += [f"sink frames {made.sink_frames}"] if made.sink_frames else []
    return "; ".join(parts)


def _guidance(plan: Plan) -> str:
    if not plan.guided:
        return "off"
    if plan.model.family.experts == 1:
        return f"{plan.guidance_scale:g}"
    return (
        f"{plan.guidance_scale:g}, then {plan.guidance_scale_2:g} below noise level "
        f"{plan.boundary_ratio:g}"
    )


def _inputs(plan: Plan) -> str:
    request = plan.request
    named = [
        ("image", request.image), ("last_image", request.last_image), ("video", request.video),
        ("mask", request.mask), *(("reference", path) for path in request.reference_images),
    ]  # fmt: skip
    texts = [f"{name} {_short(path)}" for name, path in named if path]
    return ", ".join([*texts, f"fit {plan.fit}"]) if texts else ""


def _loras(plan: Plan) -> str:
    counts = {
        item.path: f" ({item.matched} of {item.matched + item.unmatched} modules match)"
        for item in plan.lora_matches
    }
    return ", ".join(
        f"{item.path}:{item.weight}:{item.target}{counts.get(item.path, '')}" for item in plan.loras
    )


def _short(path: str) -> str:
    return path if len(path) <= 60 else f"{path[:40]}..."


def flops_text(flops: float) -> str:
    """Write an amount of work: 12.3 Pflop."""
    for unit, size in (("Pflop", 1e15), ("Tflop", 1e12), ("Gflop", 1e9)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}"
    return f"{flops / 1e6:.3g} Mflop"


def bytes_text(count: float) -> str:
    """Write an amount of memory: 1.5 GiB."""
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"


def seconds_text(time: Interval) -> str:
    """Write an expected time as its interval."""
    if time.high < 60:
        return f"{time.low:.2g} to {time.high:.2g} s"
    return f"{clock(time.low)} to {clock(time.high)}"


def between(interval: Interval, text: Callable[[float], str]) -> str:
    """Write an interval with the given way of writing one number."""
    low, high = text(interval.low), text(interval.high)
    return f"{low}" if low == high else f"{low} to {high}"
