"""The recipe of a whole chain: what made the video, as JSON that travels in its file."""

from collections.abc import Sequence
from typing import Any

from chaining.manifest import Manifest
from chaining.takes import Take


def chain_recipe(manifest: Manifest, takes: Sequence[Take]) -> dict[str, Any]:
    """Return what made a video of these takes.

    Nothing in it says when or in how many runs: a chain that was stopped gives the same file.
    """
    made = manifest.as_dict()
    kept = ("vidgen_chain", "story", "identity", "pictures")
    return {
        **{name: made[name] for name in kept},
        "seed": manifest.seed,
        "adjustments": manifest.schedule["adjustments"],
        "chain": {"clips": [_clip(take) for take in takes]},
    }


def _clip(take: Take) -> dict[str, Any]:
    return {
        "clip": take.plan.index,
        "kind": take.plan.follows,
        "prompt": take.plan.prompt,
        "strategy": take.plan.strategy,
        "seed": take.seed,
        "start": take.first + take.plan.overlap,
        "stop": take.first + take.ends,
        "colour": take.correction.as_dict(),
        "history_noise": take.record["history_noise"],
        "pixels_sha256": take.record["pixels_sha256"],
    }
