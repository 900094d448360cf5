"""Ladder: what is tried when a clip comes out unusable or memory runs out, and when to give up.

A new seed first, then, with another new seed, full attention. Memory that runs out is met once,
by decoding in tiles and offloading.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from server.problems import Problem
from server.worker.collapse import Judge, Verdict
from server.worker.failures import Unusable, is_of_disk
from server.worker.segments import Segment
from server.worker.session import Attempt, ClipMade, Session
from vidgen.errors import BadOutput, DoesNotFit
from vidgen.events import Callback, CancelToken

DENSE_FROM = 2  # attempt

Retried = Callable[[dict[str, Any], float], None]


@dataclass(frozen=True, slots=True)
class Usable:
    """A clip that is fit to be shown.

    attempt           that made it
    beginning, piece  of its segment; empty for a clip that is not shown
    """

    made: ClipMade
    attempt: Attempt
    verdict: Verdict
    beginning: bytes
    piece: bytes


def make_usable(
    session: Session,
    idx: int,
    listen: Callable[[], Callback],
    cancel: CancelToken,
    retried: Retried,
    *,
    moving: bool,
    most: int,
) -> Usable:
    """Make a clip, as often as it takes and is allowed.

    listen   gives the callback of one attempt
    retried  called before each further attempt with what its event says, and with the seconds that
             the last one took
    moving   earlier clips of the job moved
    most     how often an unusable clip is made anew
    Raises   Cancelled, Problem out_of_memory or output_collapsed, and errors of vidgen
    """
    found: list[dict[str, object]] = []
    lean, first = False, session.discarded(idx)
    while True:
        began = time.monotonic()
        number = session.discarded(idx)
        attempt = Attempt(number, dense=number >= DENSE_FROM, lean=lean)
        try:
            made = session.make(idx, attempt, listen(), cancel)
        except DoesNotFit as error:
            if is_of_disk(error):
                raise
            if lean or not session.leaner():
                raise Problem("out_of_memory", error.message, param=error.field) from error
            lean = True
            told = {"clip": idx, "reason": "out_of_memory", "attempt": number, "lean": True}
            retried(told, time.monotonic() - began)
            continue
        except BadOutput as error:
            found.append({"attempt": number, "reason": error.code, "message": error.message})
        else:
            usable = _look(session, idx, made, attempt, moving=moving)
            if usable.verdict.reason is None:
                return usable
            found.append({"attempt": number, "seed": made.seed, **usable.verdict.as_dict()})
        session.discard(idx)
        if number - first >= most:
            raise _unusable(idx, found)
        retried(_told(idx, number + 1, found[-1]), time.monotonic() - began)


def _look(session: Session, idx: int, made: ClipMade, attempt: Attempt, *, moving: bool) -> Usable:
    """Judge a clip and encode its segment in one pass over its frames."""
    judge = Judge(session.fps, moving=moving)
    segment = Segment(session.size, session.fps, made.first) if made.num_frames else None
    for frames_frwc in session.frames(idx):
        judge.add(frames_frwc)
        if segment is not None:
            segment.write(frames_frwc)
    beginning, piece = (b"", b"") if segment is None else segment.close()
    return Usable(made, attempt, judge.verdict(), beginning, piece)


def _told(idx: int, number: int, last: dict[str, object]) -> dict[str, Any]:
    return {
        "clip": idx,
        "reason": last["reason"],
        "attempt": number,
        "seed_old": last.get("seed"),
        "dense": number >= DENSE_FROM,
    }


def _unusable(idx: int, found: list[dict[str, object]]) -> Unusable:
    reasons = ", ".join(str(item["reason"]) for item in found)
    return Unusable(
        f"Clip {idx} came out unusable {len(found)} times ({reasons}), at last with another seed "
        "and full attention where that was allowed; change the prompt, the seed or the model.",
        idx,
        found,
    )
