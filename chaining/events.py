"""What a chain says while it runs; the previews of its clips pass through as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vidgen.events import Preview, Progress

if TYPE_CHECKING:
    from chaining.advice import Advice
    from chaining.drift.meter import DriftState
    from chaining.takes import Take


@dataclass(frozen=True, slots=True)
class ChainProgress:
    """One step of work on one clip is done.

    clip, clips  number of the clip that is being made, from 1 on, and how many there are
    step         of that clip, but elapsed and eta are in seconds since this run began, and until
                 the whole video is made, as far as is known
    """

    clip: int
    clips: int
    kind: str
    prompt: str
    step: Progress


@dataclass(frozen=True, slots=True, eq=False)
class ClipFinished:
    """A clip is on disk.

    drift   of the video so far; None where the meter is off or waits for a clip in between
    advice  what a person should know now
    """

    clip: int
    clips: int
    take: "Take"
    drift: "DriftState | None"
    advice: "tuple[Advice, ...]"


@dataclass(frozen=True, slots=True)
class TakenUp:
    """A chain goes on; advice is what a person should know of that."""

    advice: "tuple[Advice, ...]"


ChainEvent = TakenUp | ChainProgress | ClipFinished | Preview
OnChain = Callable[[ChainEvent], None]
