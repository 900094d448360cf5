"""Advice: what a person should know of a chain, before it runs and after a clip; never an error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaining.recolour import Correction
from chaining.schedule import Schedule
from chaining.story import Story
from chaining.strategies.last_latent import LastLatent

if TYPE_CHECKING:
    from chaining.drift.meter import DriftState


@dataclass(frozen=True, slots=True)
class Advice:
    """One sentence.

    code  stable word for a program: long_chain, experimental, environment, re_anchor, or the drift
          meter's own
    """

    code: str
    text: str
    clip: int | None = None


def before_run(story: Story, schedule: Schedule) -> tuple[Advice, ...]:
    """Say what the schedule alone shows."""
    found = []
    limit = story.controls.max_chain
    run = 0
    for clip in schedule.shown:
        run = run + 1 if clip.previous is not None else 0
        if run == limit + 1:
            text = (
                f"Shot {clip.shot + 1} continues more than max_chain={limit} clips without a fresh "
                "start; begin it with a cut, a picture, or strategy keyframes."
            )
            found.append(Advice("long_chain", text, clip.index))
    if any(clip.strategy == LastLatent.name for clip in schedule.clips):
        text = (
            "Strategy last_latent is experimental: no model known here was trained for it, and the "
            "start of a clip can flash."
        )
        found.append(Advice("experimental", text))
    return tuple(found)


def other_environment(changes: Sequence[str]) -> tuple[Advice, ...]:
    """Say that a chain goes on elsewhere than it was begun.

    changes  each as "name: old -> new"
    """
    if not changes:
        return ()
    text = (
        f"The chain goes on in another environment ({'; '.join(changes)}); new clips need not be "
        "those of one run to the last bit."
    )
    return (Advice("environment", text),)


def after_clip(clip: int, correction: Correction, drift: "DriftState | None") -> tuple[Advice, ...]:
    """Say what a finished clip shows."""
    found = []
    if correction.needs_anchor:
        error = correction.map.standard_error
        text = (
            f"The colour lock's error has grown to dE {error:.3f}; begin the next shot with a cut, "
            "a picture, or strategy keyframes."
        )
        found.append(Advice("re_anchor", text, clip))
    if drift is not None and drift.advice != "continue":
        found.append(Advice(drift.advice, drift.why, clip))
    return tuple(found)
