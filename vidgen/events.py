"""What a run says while it works, and how it is told to stop."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vidgen.errors import Cancelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Stage = Literal["load", "encode", "condition", "denoise", "decode"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of work is done.

    done, total    steps of this stage
    elapsed, eta   seconds: since the run began, and until it ends as far as is known
    density        share of key blocks that attention has read so far; None but while denoising
    attention_backend, attention_reason   who computes attention and why; "" but while denoising
    """

    stage: Stage
    done: int
    total: int
    elapsed: float
    eta: float
    density: float | None = None
    attention_backend: str = ""
    attention_reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """A cheap picture of the clip as it would be if denoising stopped now.

    frames   uint8 (latent frames, rows, columns, 3), one pixel per latent
    step     denoising steps done
    """

    frames: "NDArray[np.uint8]"
    step: int
    total: int


Event = Progress | Preview
Callback = Callable[[Event], None]


class CancelToken:
    """A flag that any thread may raise; the run looks at it between steps and decode groups."""

    def __init__(self) -> None:
        self._flag = threading.Event()

    def cancel(self) -> None:
        """Ask the run to stop."""
        self._flag.set()

    @property
    def cancelled(self) -> bool:
        """Whether a stop was asked for."""
        return self._flag.is_set()

    def check(self, where: str) -> None:
        """Raise Cancelled if a stop was asked for; `where` says what was being done."""
        if self._flag.is_set():
            raise Cancelled(f"Stopped {where}.")
