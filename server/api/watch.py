"""Watch: one thread that reads new events from the database, for all who listen in this process."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from server.database import Database
from server.database.tables import events, jobs
from server.queue.events import Event, Tail, after, latest
from server.states import TERMINAL, JobState

log = logging.getLogger("vidgen.server")

POLL_SECONDS = 0.2
PING_SECONDS = 15.0
_OVERLAP = 200  # events before the last that are read anew at the start: some may become visible


@dataclass(eq=False)
class Listener:
    """One who waits for events of a job, or with None of all jobs, and reads them itself."""

    job_id: str | None
    loop: asyncio.AbstractEventLoop
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Say from the watching thread that there is something to read."""
        with contextlib.suppress(RuntimeError):  # its loop has ended
            self.loop.call_soon_threadsafe(self.woken.set)

    async def wait(self) -> bool:
        """Return whether there was something within PING_SECONDS."""
        try:
            await asyncio.wait_for(self.woken.wait(), PING_SECONDS)
        except TimeoutError:
            return False
        return True


class Watch:
    """Reads events while anyone listens."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and every stream."""
        self._stopped.set()
        self._wake.set()
        for listener in self._all():
            listener.wake()
        if self._thread is not None:
            self._thread.join(timeout=5)

    @property
    def stopped(self) -> bool:
        """Whether the process is about to end: streams end too."""
        return self._stopped.is_set()

    @contextlib.contextmanager
    def listening(self, job_id: str | None) -> Iterator[Listener]:
        """Listen for the time of the block, from within an event loop."""
        listener = Listener(job_id, asyncio.get_running_loop())
        with self._lock:
            self._listeners.add(listener)
        self._wake.set()
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.discard(listener)

    def _all(self) -> list[Listener]:
        with self._lock:
            return list(self._listeners)

    def _run(self) -> None:
        tail: Tail | None = None
        while not self._stopped.is_set():
            if not self._all():
                tail = None
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                if tail is None:
                    since = max(0, latest(self._database) - _OVERLAP)
                    tail = Tail(self._database, since)
                self._hand_out(tail.read())
            except Exception:  # the database may be away; the next turn tries again
                log.warning("events cannot be read", exc_info=True)
            self._stopped.wait(POLL_SECONDS)

    def _hand_out(self, found: list[Event]) -> None:
        changed = {event.job_id for event in found}
        for listener in self._all() if changed else ():
            if listener.job_id is None or listener.job_id in changed:
                listener.wake()


async def follow(
    database: Database, watch: Watch, job_id: str, seq: int, may: Callable[[], bool]
) -> AsyncIterator[Event | None]:
    """Yield a job's events above a number, each once and in order, until the job has ended.

    None is yielded after each silence of PING_SECONDS. Events come from the database; the watching
    thread says only when to look, and a silence looks too.
    may  whether who follows still may; asked before each look
    """
    with watch.listening(job_id) as listener:
        while not watch.stopped:
            listener.woken.clear()
            if not await run_in_threadpool(may):
                return
            ended = await run_in_threadpool(has_ended, database, job_id)
            found = await run_in_threadpool(after, database, job_id, seq)
            for event in found:
                seq = event.seq
                yield event
            if found:
                continue
            if ended:
                return
            if not await listener.wait():
                yield None


async def until_ended(database: Database, watch: Watch, job_id: str, seconds: float) -> bool:
    """Wait until a job has ended, at most so long; return whether it has."""
    stop_at = time.monotonic() + seconds
    with watch.listening(job_id) as listener:
        while not watch.stopped:
            listener.woken.clear()
            if await run_in_threadpool(has_ended, database, job_id):
                return True
            left = stop_at - time.monotonic()
            if left <= 0:
                return False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(listener.woken.wait(), min(left, PING_SECONDS))
    return False


def has_ended(database: Database, job_id: str) -> bool:
    """Whether a job is in a state that it leaves only on request, or is gone."""
    with database.read() as connection:
        state = connection.execute(select(jobs.c.state).where(jobs.c.id == job_id)).scalar()
    return state is None or JobState(state) in TERMINAL


async def follow_tenant(
    database: Database, watch: Watch, tenant: str, seq: int, may: Callable[[], bool]
) -> AsyncIterator[Event | None]:
    """Yield the events of all jobs of a tenant above a number, without end; None at each silence.

    Those of one job are in order; between jobs a lower number may come after a higher one.
    may  whether who follows still may; asked before each look, and the end when not
    """
    given: dict[int, None] = {}
    highest = seq
    with watch.listening(None) as listener:
        while not watch.stopped:
            listener.woken.clear()
            if not await run_in_threadpool(may):
                return
            since = max(seq, highest - _OVERLAP)
            rows = await run_in_threadpool(tenant_events, database, tenant, since)
            fresh = [event for event in rows if event.seq not in given]
            for event in fresh:
                given[event.seq] = None
                highest = max(highest, event.seq)
                yield event
            given = {number: None for number in given if number > highest - 2 * _OVERLAP}
            if not fresh and not await listener.wait():
                yield None


def tenant_events(database: Database, tenant: str, seq: int) -> list[Event]:
    """Return the events of a tenant's jobs above a number, oldest first, at most 1000."""
    chosen = (
        select(events)
        .join(jobs, jobs.c.id == events.c.job_id)
        .where(jobs.c.tenant == tenant, events.c.seq > seq)
        .order_by(events.c.seq)
        .limit(1000)
    )
    with database.read() as connection:
        return [Event(**row._mapping) for row in connection.execute(chosen)]


def newest(database: Database, job_id: str, kind: str) -> Event | None:
    """Return the last event of a type, None without one."""
    chosen = select(events).where(events.c.job_id == job_id, events.c.type == kind)
    with database.read() as connection:
        row = connection.execute(chosen.order_by(events.c.seq.desc()).limit(1)).one_or_none()
    return None if row is None else Event(**row._mapping)
