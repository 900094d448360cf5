"""What differs between the making of a clip and its repeat, found before anything is loaded."""

from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import NotFound
from vidgen.inputs import Inputs, fitted, hashes
from vidgen.plan import Plan
from vidgen.recipe import environment, file_fingerprints
from vidgen.weights_file import folder_fingerprint

# What of a plan changes the result.
_PLANNED = (
    "task", "width", "height", "num_frames", "num_inference_steps", "steps", "scheduler",
    "flow_shift", "guidance_scale", "guidance_scale_2", "guided", "boundary_ratio",
    "negative_prompt", "prefix_frames", "history", "history_noise", "strength",
    "conditioning_scale", "fit", "attention", "attention_backend", "sparse", "dtype", "vae_dtype",
    "vae_tiling",
)  # fmt: skip


def changes_before(
    recipe: dict[str, Any], plan: Plan, inputs: Inputs
) -> tuple[list[Adjustment], list[str]]:
    """Compare a recipe with the plan of its repeat.

    Returns  all changes, and the fields of those after which no repeat can be exact
    """
    loose = _compared("environment", recipe["environment"], environment(plan.device.name))
    files, here = recipe["files"], file_fingerprints(plan.request)
    loras = {lora.path for lora in plan.loras}
    loras |= {item["path"] for item in recipe["plan"]["loras"]}
    loose += _compared("file", _without(files, loras), _without(here, loras))
    strict = _compared("file", *({k: v for k, v in d.items() if k in loras} for d in (files, here)))
    size = plan.size
    shown = fitted(inputs, size.width, size.height, plan.fit, plan.num_frames)
    strict += _compared("input", recipe["inputs"], hashes(shown))
    made, now = recipe["plan"], plan.as_dict()
    names = [name for name in _PLANNED if name in made]
    strict += _compared("", {k: made[k] for k in names}, {k: now[k] for k in names})
    strict += _compared(
        "",
        {"prompt": recipe["request"]["prompt"], "seed": made["seed"], "loras": made["loras"]},
        {"prompt": plan.request.prompt, "seed": plan.seeds[0], "loras": now["loras"]},
    )
    strict += _compared("", {"weights": recipe["weights"]}, {"weights": _weights(recipe, plan)})
    return [*loose, *strict], [item.field for item in strict]


def _without(files: dict[str, str], names: set[str]) -> dict[str, str]:
    return {name: value for name, value in files.items() if name not in names}


def _weights(recipe: dict[str, Any], plan: Plan) -> str:
    """Return the fingerprint of the weights, the recipe's while they are still to be fetched."""
    from vidgen.components import locate

    try:
        return folder_fingerprint(locate(plan.model, offline=True))
    except NotFound:
        return str(recipe["weights"])


def _compared(title: str, before: dict[str, Any], now: dict[str, Any]) -> list[Adjustment]:
    why = "not as it was when the file was made"
    return [
        Adjustment(f"{title} {name}".strip(), before.get(name), now.get(name), why)
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
