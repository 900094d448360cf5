"""The voice of one clip of a chain: the maker's progress, told as that of the whole video."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from chaining.clip_plan import ClipPlan
from chaining.events import ChainProgress, OnChain
from chaining.schedule import Schedule
from chaining.takes import Take
from vidgen.events import Event, Preview, Progress


def clip_voice(
    schedule: Schedule, plan: ClipPlan, done: Sequence[Take], run_began: float, on: OnChain
) -> Callable[[Event], None]:
    """Return the callback for one clip.

    done       finished takes; their pace per frame says how long the clips to come take, and
               before there is one, the clip's own does
    run_began  time.perf_counter() when the run began
    """
    finished = {take.plan.index for take in done}
    timed = [take for take in done if take.record["seconds"]]  # a given beginning took no time
    made = sum(take.plan.num_frames for take in timed)
    spent = sum(float(take.record["seconds"]) for take in timed)
    left = sum(
        clip.num_frames
        for clip in schedule.clips
        if clip.index not in finished and clip.index != plan.index
    )
    began = time.perf_counter()

    def tell(event: Event) -> None:
        if isinstance(event, Preview):
            on(event)
            return
        now = time.perf_counter()
        pace = spent / made if made else (now - began + event.eta) / plan.num_frames
        on(_progress(schedule, plan, event, now - run_began, event.eta + pace * left))

    return tell


def _progress(
    schedule: Schedule, plan: ClipPlan, event: Progress, elapsed: float, eta: float
) -> ChainProgress:
    return ChainProgress(
        clip=plan.index + 1,
        clips=len(schedule.clips),
        kind=plan.kind,
        prompt=plan.prompt,
        step=replace(event, elapsed=elapsed, eta=eta),
    )
