"""The arms of the sparsity benchmark: one way of making attention sparse each, by name."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from attention import TopK, Window
from vidgen.attention_plan import AttentionPlan
from vidgen.families import SparseDefaults

DENSITIES = (0.5, 0.25, 0.125, 0.0625)


@dataclass(frozen=True, slots=True)
class Arm:
    """A way of making attention sparse, and what it changes in the base, for people."""

    name: str
    plan: AttentionPlan
    differs: str


def base_plan(defaults: SparseDefaults, backend: str, dense_above: float) -> AttentionPlan:
    """Return a family's own choices as a plan.

    dense_above  noise level above which every key is read, from `dense_steps` and the flow shift
    """
    pattern = TopK(defaults.density, compensate=defaults.compensate, sub_block=defaults.sub_block)
    return AttentionPlan(
        pattern,
        backend,
        "benchmark",
        query_block=defaults.query_block,
        key_block=defaults.key_block,
        dense_above=dense_above,
        dense_layers=defaults.dense_layers,
    )


def density_arms(base: AttentionPlan) -> list[Arm]:
    """The base at every density."""
    pattern = base.pattern
    assert isinstance(pattern, TopK)
    return [
        Arm(
            f"topk {density:g}",
            dataclasses.replace(base, pattern=dataclasses.replace(pattern, density=density)),
            f"density {density:g}",
        )
        for density in DENSITIES
    ]


def choice_arms(base: AttentionPlan) -> list[Arm]:
    """Each design choice changed alone, at the base's density."""
    pattern = base.pattern
    assert isinstance(pattern, TopK)
    patterns: Mapping[str, TopK] = {
        "mean scores": dataclasses.replace(pattern, score="mean"),
        "mass scores": dataclasses.replace(pattern, score="mass"),
        "subblock scores": dataclasses.replace(pattern, score="subblock"),
        "compensate none": dataclasses.replace(pattern, compensate="none"),
        "compensate mean": dataclasses.replace(pattern, compensate="mean"),
        "compensate mean_var": dataclasses.replace(pattern, compensate="mean_var"),
        "no neighbours": dataclasses.replace(pattern, neighbours=0),
        "top_p 0.9": dataclasses.replace(pattern, top_p=0.9),
    }
    arms = [
        Arm(name, dataclasses.replace(base, pattern=changed), name)
        for name, changed in patterns.items()
        if changed != pattern
    ]
    if pattern.budgets is not None:
        uniform = dataclasses.replace(pattern, budgets=None)
        arms.append(Arm("uniform budgets", dataclasses.replace(base, pattern=uniform), "budgets"))
    arms += [
        Arm("raster", dataclasses.replace(base, order="raster"), "token order"),
        Arm("no guard", dataclasses.replace(base, dense_above=1.0), "no dense steps"),
        Arm("no dense layer", dataclasses.replace(base, dense_layers=()), "no dense layer"),
        Arm("sink frame", dataclasses.replace(base, sink_frames=1), "first frame always read"),
        Arm(
            "window",
            dataclasses.replace(base, pattern=Window(pattern.density)),
            "nearest blocks, whatever they hold",
        ),
    ]
    return arms


def floor_arm(base: AttentionPlan) -> Arm:
    """Every key through the sparse executor: what rounding alone does."""
    whole = TopK(1.0, compensate="none", sub_block=base.pattern.sub_block)  # type: ignore[union-attr]
    plan = dataclasses.replace(base, pattern=whole, dense_above=1.0, dense_layers=())
    return Arm("dense, permuted", plan, "every key, in the sparse executor")
