"""Stop: why the job that runs here shall end, and the token by which the run sees it."""

import threading
from typing import Literal

from vidgen.events import CancelToken

EXIT_STUCK = 70  # of a worker whose step hangs: whoever started it starts it anew at once

Reason = Literal["cancel", "delete", "deadline", "pause", "drain", "lost"]

# A later reason counts only if it ranks higher: a job that another worker has is not ours to end.
_RANK: dict[Reason, int] = {
    "drain": 0,
    "pause": 1,
    "deadline": 2,
    "cancel": 3,
    "delete": 4,
    "lost": 5,
}


class Stop:
    """One job's; any thread may ask for it."""

    def __init__(self) -> None:
        self.token = CancelToken()
        self._lock = threading.Lock()
        self._reason: Reason | None = None

    @property
    def reason(self) -> Reason | None:
        """Why, None if nobody asked."""
        return self._reason

    def ask(self, reason: Reason) -> None:
        """Have the run stop at its next step."""
        with self._lock:
            if self._reason is None or _RANK[reason] > _RANK[self._reason]:
                self._reason = reason
        self.token.cancel()


class Left(BaseException):
    """Ends a job's run here and leaves the job to be gone on with, here or elsewhere.

    It passes `except Exception`, so that nothing records it as a failure.
    """
