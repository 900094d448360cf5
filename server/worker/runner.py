"""Runner: one claimed job, from its request to an end that is written down."""

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from server.database.open import Database
from server.database.tables import clips
from server.problems import Problem
from server.queue import rates
from server.queue.held import Held, LeaseLost
from server.queue.job import ClipRow, Job
from server.queue.leaving import cancelled, made_so_far, overrun
from server.queue.retrying import retrying
from server.queue.sealed import payload_of
from server.settings import ServerSettings
from server.states import JobState
from server.store.store import Store
from server.tracing import job_span, span
from server.worker.bringing import bring
from server.worker.clip_row import clip_row
from server.worker.failures import Unusable, problem_of
from server.worker.keepsakes import Keepsakes
from server.worker.ladder import make_usable
from server.worker.ledger import Ledger, moved
from server.worker.progress import Progress
from server.worker.session import Attempt, Finished, Renderer, Session
from server.worker.stop import Left, Stop
from server.worker.voice import Voice
from server.worker.watcher import ORDERS, Beat, Watcher
from server.worker.workplace import Workplace
from vidgen.errors import Cancelled, VidgenError

TRIES = 40  # of a write, over about a minute without a database
log = logging.getLogger(__name__)
_Result = TypeVar("_Result")
Step = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Shop:
    """What all jobs of a worker share.

    step   does a piece of work once, over crashes
    stuck  ends the process; called with a sentence
    """

    db: Database
    settings: ServerSettings
    store: Store
    renderer: Renderer
    step: Step
    stuck: Callable[[str], None]


class Runner:
    """One job. Nothing it raises is a failure of the job: that is written to the table."""

    def __init__(self, shop: Shop, held: Held) -> None:
        self.stop = Stop()
        self.beat = Beat()
        self.job: Job = held.claimed
        self._shop = shop
        self._held = held
        self._place = Workplace(shop.settings, shop.store, held.claimed)
        self._keepsakes = Keepsakes(shop.store, held.claimed)
        self._ledger = Ledger(held.claimed)
        self._records: list[dict[str, Any]] = []
        self._rows: dict[int, ClipRow] = {}
        self._voice: Voice | None = None

    def run(self) -> None:
        """Make the job, or as much of it as is allowed.

        Raises  Left when the job is to be gone on with
        """
        watcher = Watcher(self._held, self.stop, self.beat, self._shop.settings, self._shop.stuck)
        try:
            with watcher, job_span(self.job, self._held.owner):
                self._guarded()
        except LeaseLost as lost:
            log.warning("%s", lost)
            raise Left from None
        except SQLAlchemyError:
            log.exception("%s is left: the database is away", self.job.id)
            raise Left from None

    def left(self) -> float:
        """Return in how many seconds it will have ended, as far as is known."""
        if self._voice is None or self._voice.left is None:
            return self.job.remaining_seconds
        return self._voice.left

    def _guarded(self) -> None:
        try:
            self._make()
        except Cancelled:
            self._stopped()
        except SQLAlchemyError:
            raise
        except (Problem, VidgenError, OSError) as error:
            self._fail(problem_of(error), error)
        except Exception as error:
            # What an error says and where it came from can hold words of the request.
            told = None if self.job.zdr else error
            name = type(error).__name__
            log.error("%s met an unknown error (%s)", self.job.id, name, exc_info=told)
            self._fail(problem_of(error), error)

    def _make(self) -> None:
        self._write(lambda: self._obey(self._held.move(JobState.ASSIGNED, phase="load")))
        begun_anew = self._place.open()
        with contextlib.chdir(self._place.root):
            session = self._open()
            try:
                self._rows = self._known()
                if begun_anew:
                    for idx in sorted(session.made() - set(self._rows), reverse=True):
                        session.discard(idx)
                finished = self._work(session)
                attention = session.attention
            finally:
                session.close()
        self._deliver(finished, attention)

    def _obey(self, job: Job) -> None:
        """Hear what was asked since the claim now: a short job ends before the watcher looks."""
        if job.stop is not None:
            self.stop.ask(ORDERS[job.stop])

    def _open(self) -> Session:
        shop = self._shop
        payload = bring(payload_of(shop.db, self.job), shop.db, shop.store, self._place)
        self.stop.token.check("before the model was loaded")
        return shop.renderer.open(self.job, payload, self._place.folder)

    def _work(self, session: Session) -> Finished:
        shop, done = self._shop, session.made() & set(self._rows)
        progress = Progress(session.costs, done, self.job.progress)
        previews = shop.settings.previews and not self.job.zdr
        with Voice(
            self._held, progress, self.beat, self.stop, shop.store, previews=previews
        ) as voice:
            self._voice = voice
            self._make_clips(session, voice)
            self._write(lambda: self._held.move(JobState.FINALIZING, phase="write"))
            with span("write"):
                return session.finish(voice.writing, self.stop.token)

    def _make_clips(self, session: Session, voice: Voice) -> None:
        for idx in range(session.num_clips):
            self.stop.token.check(f"before clip {idx}")
            work = partial(self._clip, session, voice, idx)
            record = self._shop.step(f"clip {idx}", work)
            if idx not in session.made():
                self._restore(session, voice, idx, record)
            self._records.append(record)
            self._ledger.clip(record["metrics"])
            voice.progress.finished(idx)
            self.beat.clip_began = None
            if record["metrics"]["ends"] is not None:
                raise Problem("drift_exceeded", record["metrics"]["ends"])

    def _clip(self, session: Session, voice: Voice, idx: int) -> dict[str, Any]:
        """Make a clip, check it, store it and write it down."""
        row = self._rows.get(idx)
        if row is None:
            with span("clip", clip=idx):
                usable = make_usable(
                    session,
                    idx,
                    partial(voice.of_clip, idx, self._begin),
                    self.stop.token,
                    self._retry,
                    moving=moved(item["metrics"] for item in self._records),
                    most=self._shop.settings.max_collapses,
                )
            self._write(self._held.job)
            self.beat.move(_sending_seconds(_files_below(self._place.folder)))
            artifacts = self._keepsakes.clip(idx, usable)
            self._place.save()
            cost = voice.progress.predicted(idx)
            row = clip_row(self._held, idx, usable, artifacts, cost)
            made = row
            self._write(lambda: self._held.clip_done(made))
        return {"attempt": row.attempt, "sha256": row.sha256, "metrics": row.metrics}

    def _restore(self, session: Session, voice: Voice, idx: int, record: dict[str, Any]) -> None:
        """Make a clip again that is known to be good and whose files are not on this machine."""
        how = record["metrics"]
        attempt = Attempt(record["attempt"], dense=how["dense"], lean=how["lean"])
        on = voice.of_clip(idx, self._begin)
        made = session.make(idx, attempt, on, self.stop.token)
        if made.sha256 != record["sha256"]:
            log.warning("%s: clip %d came out otherwise than before", self.job.id, idx)

    def _begin(self) -> None:
        self._write(lambda: self._held.move(JobState.RUNNING))

    def _retry(self, told: dict[str, Any], seconds: float) -> None:
        """Say that a clip is made again; what the last attempt took is ours to bear."""
        self._ledger.retry(seconds)
        self._begin()
        self._write(lambda: self._held.move(JobState.RETRYING, told))

    def _deliver(self, finished: Finished, attention: str) -> None:
        report = self._report(finished)
        self.beat.move(_sending_seconds(finished.files.values()))
        artifacts = self._keepsakes.results(finished.files, report)
        if self.stop.reason in ("delete", "lost"):
            self._stopped()
            return
        usage = self._ledger.as_dict()
        self._write(
            lambda: self._held.finish(
                JobState.COMPLETED, artifacts=artifacts, usage=usage, report=report
            )
        )
        self._keepsakes.forget_preview()
        for path in finished.files.values():
            path.unlink(missing_ok=True)
        if self.job.kind == "clip" or self.job.zdr:
            self._place.remove()  # other chains' clips stay, to be gone on from
        self._learn(usage, attention)

    def _report(self, finished: Finished) -> dict[str, Any]:
        quality = [
            {"clip": idx, **record["metrics"]["quality"]}
            for idx, record in enumerate(self._records)
        ]
        return {"video": finished.facts, "quality": quality, **finished.report}

    def _learn(self, usage: dict[str, Any], attention: str) -> None:
        """Correct later predictions by what this job took."""
        found = usage.get("predicted_vs_actual")
        if found is None or found["actual_seconds"] <= 0:
            return
        predicted, measured = found["predicted_seconds"], found["actual_seconds"]
        device = self._shop.renderer.profile.name
        self._write(
            lambda: rates.record(
                self._shop.db, self.job.model, device, attention, predicted, measured
            )
        )

    def _stopped(self) -> None:
        """End or leave the job as what was asked for says."""
        reason = self.stop.reason
        if reason == "lost":
            held = self._held
            log.warning("%s no longer has %s (epoch %d)", held.owner, self.job.id, held.epoch)
            raise Left
        self._place.save()
        if reason != "drain":
            self._ledger.beside = self.beat.clip_seconds()
        usage = self._ledger.as_dict()
        job = self._write(self._held.job)
        if reason == "deadline":
            self._end(JobState.FAILED, overrun(job), usage)
        elif reason in ("cancel", "delete"):
            self._end(JobState.CANCELLED, cancelled(job), usage)
        else:
            # To be paused, or handed back: what is asked of it in the table by now decides.
            back = self._write(lambda: self._held.move(JobState.INTERRUPTED, usage=usage))
            if back.state is JobState.INTERRUPTED:
                raise Left
        if reason == "delete":
            self._place.remove()
            self._keepsakes.forget()

    def _fail(self, problem: Problem, error: Exception) -> None:
        log.warning("%s failed with %s", self.job.id, problem.code)
        report: dict[str, Any] = {"quality": [r["metrics"]["quality"] for r in self._records]}
        if isinstance(error, Unusable):
            report["attempts"] = error.attempts
        self._end(JobState.FAILED, problem.as_dict(), self._ledger.as_dict(), report)

    def _end(
        self,
        state: JobState,
        error: dict[str, Any],
        usage: dict[str, Any],
        report: dict[str, Any] | None = None,
    ) -> None:
        error = {**error, **made_so_far(self._write(self._held.job))}
        self._write(lambda: self._held.finish(state, error=error, usage=usage, report=report))

    def _known(self) -> dict[int, ClipRow]:
        """Return the clips that are written down, by this worker or by earlier ones."""
        chosen = select(clips).where(clips.c.job_id == self.job.id)

        def read() -> dict[int, ClipRow]:
            with self._shop.db.read() as connection:
                found = [ClipRow.of(row) for row in connection.execute(chosen)]
            return {row.idx: row for row in found}

        return self._write(read)

    def _write(self, tried: Callable[[], _Result]) -> _Result:
        return retrying(tried, tries=TRIES)


def _sending_seconds(files: Iterable[Path]) -> float:
    """Return how long files may take to the store, at 1 MiB a second."""
    found = 0
    for path in files:
        with contextlib.suppress(FileNotFoundError):  # a passing file of somebody at work there
            found += path.stat().st_size
    return found / 2**20


def _files_below(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in names)
