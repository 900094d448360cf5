"""Problem: everything the server refuses or fails with, by code; the one table of codes."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """What a code means.

    http       status of the response that refuses with it
    retryable  the same request may succeed later, or on another try
    billed     work that was done before it is counted as used
    """

    http: int
    retryable: bool = False
    billed: bool = False


KINDS: dict[str, Kind] = {
    # of a request
    "invalid_request": Kind(400),
    "unauthorized": Kind(401),
    "forbidden": Kind(403),
    "not_found": Kind(404),
    "conflict": Kind(409),
    "gone": Kind(410),
    "input_too_large": Kind(413),
    "unsupported_media": Kind(415),
    "range_not_satisfiable": Kind(416),
    "unprocessable": Kind(422),
    "idempotency_mismatch": Kind(422),
    "input_fetch_failed": Kind(422, retryable=True),
    "unsupported_model": Kind(422),
    "no_worker_fits": Kind(422),
    "queue_full": Kind(429, retryable=True),
    "quota_exceeded": Kind(429, retryable=True),
    "budget_exceeded": Kind(429, retryable=True),
    "not_implemented": Kind(501),
    "unavailable": Kind(503, retryable=True),
    "storage_full": Kind(507, retryable=True),
    # of a job
    "cancelled": Kind(409, retryable=True, billed=True),
    "deadline_exceeded": Kind(409, retryable=True),
    "out_of_memory": Kind(500, retryable=True),
    "output_collapsed": Kind(500, retryable=True),
    "drift_exceeded": Kind(500, retryable=True, billed=True),
    "worker_lost": Kind(500, retryable=True),
    "storage_failed": Kind(500, retryable=True),
    "internal": Kind(500, retryable=True),
}


class Problem(Exception):
    """A refusal or failure with a code of KINDS; str() is one sentence for a person.

    param    the field at fault
    headers  of the response, e.g. Retry-After
    extra    further members of the error object, JSON-ready
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        assert code in KINDS, code
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.headers = headers or {}
        self.extra = extra or {}

    @property
    def kind(self) -> Kind:
        """Return what its code means."""
        return KINDS[self.code]

    def as_dict(self) -> dict[str, Any]:
        """Return the error object of a response or of a failed job."""
        kind = "invalid_request_error" if self.kind.http < 500 else "server_error"
        data: dict[str, Any] = {"code": self.code, "message": self.message, "type": kind}
        data["param"] = self.param
        return data | {"retryable": self.kind.retryable} | self.extra
