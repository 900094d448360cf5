"""Counters: what one API process counts itself; the rest of /metrics comes from the database."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0)


class Counters:
    """Counts of this process since it began."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "vidgen_http_requests", "Answered requests.", ("method", "route", "status"),
            registry=self.registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "vidgen_http_request_seconds", "Time until the end of the response.", ("route",),
            registry=self.registry, buckets=_SECONDS,
        )  # fmt: skip
        self._refused = Counter(
            "vidgen_jobs_refused", "Jobs that were not accepted.", ("code",),
            registry=self.registry,
        )  # fmt: skip
        self._turns = Counter(
            "vidgen_background_turns", "Turns of background loops.", ("loop", "result"),
            registry=self.registry,
        )  # fmt: skip
        self._sent = Counter(
            "vidgen_webhook_attempts", "Tries to deliver a webhook.", registry=self.registry
        )

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a response; route is the pattern, never the path."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def refused(self, code: str) -> None:
        """Count a job that was not accepted."""
        self._refused.labels(code).inc()

    def turned(self, loop: str, *, good: bool) -> None:
        """Count a turn of a background loop."""
        self._turns.labels(loop, "ok" if good else "failed").inc()

    def webhooks_sent(self, count: int) -> None:
        """Count tries of deliveries."""
        self._sent.inc(count)
