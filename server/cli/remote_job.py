"""One job on a server, followed from here: its progress, its end, its file."""

import time
from pathlib import Path
from typing import Any

from server.cli.client import Client, job_path
from server.cli.report import Reporter, visible
from vidgen.cli.report import clock
from vidgen.errors import BadOutput, Cancelled, DoesNotFit, VidgenError
from vidgen.events import CancelToken, Progress

POLL_SECONDS = 0.5
_ENDED = ("completed", "failed")
_CLASSES: dict[str, type[VidgenError]] = {
    "cancelled": Cancelled,
    "out_of_memory": DoesNotFit,
    "output_collapsed": BadOutput,
    "drift_exceeded": BadOutput,
}


class RemoteJob:
    """A job that was handed in."""

    def __init__(self, client: Client, video: dict[str, Any], reporter: Reporter) -> None:
        self.id = str(video["id"])
        self.video = video
        self._client = client
        self._reporter = reporter
        self._shown: tuple[Any, ...] = ()
        self._clips = 0
        self._began = time.monotonic()

    @property
    def ended(self) -> bool:
        """Whether it has ended, as far as was seen."""
        return self.video["status"] in _ENDED

    def follow(self, cancel: CancelToken, clip: int = 1, clips: int = 1) -> dict[str, Any]:
        """Wait until it has a video; the token cancels it. Return it as the API shows it.

        clip, clips  what the progress line counts, where several jobs are followed
        Raises       Cancelled, and what it failed with
        """
        asked = False
        try:
            while not self.ended:
                if cancel.cancelled and not asked:
                    asked = True
                    self.cancel()
                self._tell(clip, clips)
                time.sleep(POLL_SECONDS)
                self.video = self._client.get(job_path(self.id))
        except KeyboardInterrupt:
            text = f"{self.id} is left to the server: {self.way_back('watch')} follows it and"
            raise Cancelled(f"{text} {self.way_back('fetch --out FILE')} brings it here.") from None
        self._tell(clip, clips)
        if self.video["status"] == "completed":
            return self.video
        raise self.failure()

    def cancel(self) -> None:
        """Have the server stop it."""
        self.video = self._client.post(job_path(self.id, "cancel"))

    def failure(self) -> VidgenError:
        """Return the error that says why it has no video, and what can be done."""
        error = self.video["error"] or {"code": "failed", "message": "It failed."}
        hint = ""
        if error["code"] == "cancelled":
            hint = f" {self.way_back('resume')} goes on with it."
        elif error.get("retryable"):
            hint = f" {self.way_back('retry')} tries it again."
        kind = _CLASSES.get(error["code"], VidgenError)
        return kind(visible(f"{self.id}: {error['message']}{hint}"), code=error["code"])

    def way_back(self, action: str) -> str:
        """Return the command that does something with it later."""
        return f"`vidgen queue {action} {self.id} --server {self._client.address}`"

    def download(self, path: Path, variant: str = "video") -> None:
        """Bring a file of it here."""
        part = f"{job_path(self.id, 'content')}?variant={variant}"
        self._client.download(part, path)

    def _tell(self, clip: int, clips: int) -> None:
        """Tell where it is, if that has changed."""
        video = self.video
        shown = tuple(
            video[name]
            for name in ("state", "phase", "step", "queue_position", "hold_reason", "progress",
                         "clips_completed")
        )  # fmt: skip
        if shown == self._shown:
            return
        self._shown = shown
        if video["clips"] > 1:
            clip, clips = min(video["clips_completed"] + 1, video["clips"]), video["clips"]
            self._tell_clips()
        if video["state"] in ("running", "retrying") and video["step"] and video["steps"]:
            self._progress(clip, clips)
        elif not self.ended:
            self._reporter.stage(self._where())

    def _tell_clips(self) -> None:
        for clip in range(self._clips + 1, self.video["clips_completed"] + 1):
            self._reporter.emit("clip_completed", clip=clip, clips=self.video["clips"], job=self.id)
        self._clips = self.video["clips_completed"]

    def _progress(self, clip: int, clips: int) -> None:
        video = self.video
        eta = 0.0 if video["eta_s"] is None else float(video["eta_s"]["p50"])
        elapsed = time.monotonic() - self._began
        phase: Any = visible(video["phase"] or "denoise")
        step = Progress(phase, video["step"], video["steps"], elapsed, eta)
        self._reporter.progress(step, clip, clips)

    def _where(self) -> str:
        """Say where a job is that has no steps now."""
        video = self.video
        if video["hold_reason"]:
            return f"held: {video['hold_reason']}"
        if video["state"] in ("queued", "interrupted"):
            begins = video["eta_start_s"]
            soon = "" if begins is None else f", begins in about {clock(begins['p50'])}"
            return f"{video['state']}, place {video['queue_position']}{soon}"
        return str(video["state"]) if video["phase"] is None else str(video["phase"])
