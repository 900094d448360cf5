"""Refusals: which requests were refused for now, so that their retries are not taken for lost ones.

The official client sends a request again both when its answer was lost and when it was refused for
now. Only the first kind may be answered with the job that the same request made before.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from server.problems import Problem
from server.queue.creating import BLIND_RETRY_SECONDS

KEPT = 4096

Key = tuple[str, str | None, str]  # tenant, API key, hash of the fields


class Refusals:
    """Those of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._at: OrderedDict[Key, float] = OrderedDict()

    def note(self, key: Key, problem: Problem) -> None:
        """Remember that a request was refused and may be sent again."""
        if not problem.kind.retryable:
            return
        with self._lock:
            self._at[key] = self._clock()
            while len(self._at) > KEPT:
                self._at.popitem(last=False)

    def known(self, key: Key) -> bool:
        """Whether the last of these requests was refused a short time ago."""
        with self._lock:
            at = self._at.get(key)
        return at is not None and self._clock() - at < BLIND_RETRY_SECONDS

    def forget(self, key: Key) -> None:
        """The request made a job."""
        with self._lock:
            self._at.pop(key, None)
