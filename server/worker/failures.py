"""Failures: what an error of the run means for the job, by the codes of the server."""

import errno

from server.problems import Problem
from vidgen.errors import (
    BadMedia,
    BadOutput,
    BadRequest,
    DoesNotFit,
    NotFound,
    Unsupported,
    VidgenError,
)


class Unusable(Problem):
    """A clip came out unusable however it was made.

    attempts  what was found each time, JSON-ready
    """

    def __init__(self, message: str, clip: int, attempts: list[dict[str, object]]) -> None:
        super().__init__("output_collapsed", message, extra={"clip": clip, "attempts": attempts})
        self.attempts = attempts


def is_of_disk(error: DoesNotFit) -> bool:
    """Whether the disk was too small, and not the memory."""
    cause = error.__cause__
    if type(cause).__name__ == "SafetensorError":  # what it says when it cannot write
        return True
    number = getattr(cause, "errno", None)
    return number is not None and number != errno.ENOMEM


def problem_of(error: Exception) -> Problem:
    """Return the problem with which a job fails for an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, DoesNotFit):
        code = "storage_full" if is_of_disk(error) else "out_of_memory"
        return Problem(code, error.message, param=error.field)
    if isinstance(error, BadOutput):
        return Problem("output_collapsed", error.message)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Problem("storage_full", "The disk of the worker is full; free space, then resume.")
    if isinstance(error, VidgenError):
        return Problem(_code_of(error), error.message, param=error.field)
    # The text of other errors can hold anything, so it stays in the worker's log.
    return Problem(
        "internal",
        f"The worker met an error that it does not know ({type(error).__name__}); its log says "
        "more. Resume the job to try again.",
    )


def _code_of(error: VidgenError) -> str:
    if isinstance(error, NotFound):
        return "unsupported_model"
    if isinstance(error, BadMedia):
        return "unsupported_media"
    if isinstance(error, Unsupported):
        return "unprocessable"
    return "invalid_request" if isinstance(error, BadRequest) else "internal"
