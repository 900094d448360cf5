"""The jobs of the chaos run: handed in until each is accepted, a few of them cancelled."""

import random
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.fleet import Fleet

MAX_CLIPS = 4
_CLIP_SECONDS = 1.0625  # 17 frames at toyworld's rate: one clip
_BROKEN, _CANCELLED = 0.05, 0.05  # shares


@dataclass(slots=True)
class Accepted:
    """A job that the server has taken on.

    may_end  states that it may end in
    """

    clips: int
    may_end: tuple[str, ...]


class Submitter:
    """Hands in jobs one after another; a request without an answer is sent again."""

    def __init__(self, fleet: Fleet, jobs: int, spread: float, chance: random.Random) -> None:
        """Prepare. spread: seconds over which the jobs are handed in when all answers are quick."""
        self._pause = spread / jobs
        self.accepted: dict[str, Accepted] = {}
        self.missed = 0
        self.done = False
        self._fleet = fleet
        self._jobs = jobs
        self._chance = chance

    @property
    def missing(self) -> int:
        """How many jobs were not accepted."""
        return self._jobs - len(self.accepted)

    def run(self) -> None:
        """Hand in all jobs."""
        for number in range(self._jobs):
            self._one(number)
        self.done = True

    def _one(self, number: int) -> None:
        clips = self._chance.randint(1, MAX_CLIPS)
        fate = self._chance.random()
        broken, cancelled = fate < _BROKEN, _BROKEN <= fate < _BROKEN + _CANCELLED
        words = f"a ball steps=4 step={self._chance.uniform(0.02, 0.3):.2f}"
        body = _body(words + (" broken=1" if broken else ""), clips, number)
        video = self._sure("POST", "/v1/videos", body, {"Idempotency-Key": f"chaos-{number}"})
        ends: tuple[str, ...] = ("failed",) if broken else ("completed",)
        if cancelled:
            time.sleep(self._chance.uniform(0, 1))
            self._sure("POST", f"/v1/videos/{video['id']}/cancel", {}, {}, (200, 409))
            ends = ("cancelled", "completed")
        self.accepted[video["id"]] = Accepted(int(video["clips"]), ends)
        time.sleep(self._chance.uniform(0, 2 * self._pause))

    def _sure(
        self,
        method: str,
        path: str,
        body: dict[str, Any],
        headers: dict[str, str],
        good: tuple[int, ...] = (200,),
    ) -> dict[str, Any]:
        """Send a request until it is answered as it should be."""
        while True:
            try:
                status, answer = self._fleet.call(method, path, body, headers)
            except (OSError, ValueError):
                status, answer = 0, {}
            if status in good:
                return answer
            if status not in (0, 500, 502, 503, 504):
                raise RuntimeError(f"{method} {path} was answered {status}: {answer}")
            self.missed += 1
            time.sleep(0.5)


def _body(words: str, clips: int, number: int) -> dict[str, Any]:
    if clips == 1:
        return {"prompt": words, "seed": number, "num_frames": 17}
    shot = {"prompt": words, "seconds": _CLIP_SECONDS}
    shots = [shot, *({**shot, "transition": "cut"} for _ in range(clips - 1))]
    return {"story": {"shots": shots, "seed": number, "request": {"num_frames": 17}}}
