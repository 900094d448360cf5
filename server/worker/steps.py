"""Steps: work that is done once, over crashes and on other machines; the one room that knows DBOS.

A job is a workflow and a clip is a step of it. What DBOS would decide unsafely is decided here:
- The executor is the worker, whose id is never used again: DBOS's own recovery at a start, which
  would take up a job that another process still works on, finds nothing.
- Every workflow runs on the queue of the worker that has claimed its job, one at a time. A job of
  a worker that is gone is taken over by resuming its workflow on the queue of another.
- The version is a constant: waiting jobs outlive a change of code.
- A workflow's only argument is the job's id, and everything is stored as JSON.
- No workflow is meant to fail: what becomes of a job is written to the table of jobs. A worker that
  stops or has lost its job leaves the workflow pending, by an exception that DBOS does not record.

With Postgres the tables of DBOS are in a schema of their own. With SQLite they are in a file beside
ours: it has one writer at a time, and a worker's polling must not keep the API waiting. Nothing
spans the two: without its workflow a job goes on by the clips that are on disk.
"""

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbos import (
    DBOS,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    SetWorkflowID,
    WorkflowStatusString,
    error,
)
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL

from server.worker.stop import Left

# Raised by hand when a workflow's steps change so that a recorded one could not be taken up.
CHAIN_SCHEMA_VERSION = "vidgen-1"

QUEUE_SECONDS = 0.2  # between two looks of DBOS at its queue: a look takes some 5 ms
LISTEN_SECONDS = 0.1
BEGIN_SECONDS = 120.0
NOTED_SECONDS = 10.0
_ENDED = (
    WorkflowStatusString.SUCCESS.value,
    WorkflowStatusString.ERROR.value,
    WorkflowStatusString.CANCELLED.value,
    WorkflowStatusString.MAX_RECOVERY_ATTEMPTS_EXCEEDED.value,
)
log = logging.getLogger(__name__)


class Steps:
    """Runs jobs one at a time, each in a thread of its own; one object a process."""

    def __init__(self, database: URL, worker_id: str, body: Callable[[str], None]) -> None:
        """Prepare; nothing is opened yet.

        database   of the jobs
        worker_id  unlike that of any other process, ever
        body       makes the job of an id; it may call `step`, and raises nothing but Left
        """
        assert worker_id != "local"
        self._database = database
        self._queue = worker_id
        self._body = body
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._whole = False
        self._engine: Engine | None = None

        @DBOS.workflow(name="job")
        def workflow(job_id: str) -> None:
            self._run(job_id)

        self._workflow = workflow

    def open(self) -> None:
        """Connect, and bring the tables of DBOS up to date.

        Raises  SQLAlchemyError and others when the database is away
        """
        config: DBOSConfig = {
            "name": "vidgen",
            "executor_id": self._queue,
            "application_version": CHAIN_SCHEMA_VERSION,
            "serializer": DBOSPortableJSONSerializer(),
            "use_listen_notify": False,
            "sys_db_pool_size": 5,
            # Nothing is sent to workflows; this is how long its thread takes to end.
            "notification_listener_polling_interval_sec": LISTEN_SECONDS,
            "log_level": "ERROR",
        }
        if self._database.get_backend_name() == "sqlite":
            path = steps_file(self._database)
            self._engine = _open_sqlite(path)
            config["system_database_url"] = f"sqlite:///{path}"
            config["system_database_engine"] = self._engine
        else:
            config["system_database_url"] = self._database.render_as_string(hide_password=False)
        DBOS(config=config)
        DBOS.listen_queues([self._queue])
        DBOS.launch()
        DBOS.register_queue(self._queue, worker_concurrency=1, polling_interval_sec=QUEUE_SECONDS)

    def run(self, job_id: str, run: int) -> None:
        """Begin or go on with a job, and return when its body has ended here.

        run     the job's; each is a workflow of its own
        Raises  TimeoutError when DBOS does not begin
        """
        workflow_id = f"{job_id}:{run}"
        status = DBOS.get_workflow_status(workflow_id)
        if status is not None and status.status in _ENDED:
            # Our table says that the job has not ended, and it decides.
            DBOS.delete_workflow(workflow_id)
            status = None
        self._begun.clear()
        self._ended.clear()
        if status is None:
            with SetWorkflowID(workflow_id):
                DBOS.enqueue_workflow(self._queue, self._workflow, job_id)
        else:
            DBOS.resume_workflow(workflow_id, queue_name=self._queue)
        if not self._begun.wait(BEGIN_SECONDS):
            raise TimeoutError(f"{job_id} has not begun {BEGIN_SECONDS:.0f} s after it was queued.")
        self._ended.wait()
        if self._whole:
            self._forget(workflow_id)

    def step(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do a piece of work of the job that runs, or return what it gave when it was done earlier.

        work  gives JSON-ready data; what it raises is raised here and not recorded, so that whoever
              goes on does it again
        """

        def unrecorded() -> dict[str, Any]:
            try:
                return work()
            except Exception as raised:  # noqa: BLE001 - raised again below
                raise _Carried(raised) from None

        try:
            return DBOS.run_step({"name": name}, unrecorded)
        except _Carried as carried:
            raise carried.error from None
        except error.DBOSWorkflowConflictIDError as conflict:
            # DBOS would hold this thread until the new owner has finished.
            log.warning("%s no longer has its job (%s)", self._queue, conflict)
            raise Left(str(conflict)) from conflict

    def close(self) -> None:
        """Stop; a body that still runs is not waited for."""
        try:
            DBOS.delete_queue(self._queue)
        finally:
            self._let_go(for_good=True)

    def reset(self) -> None:
        """Let go of what `open` has opened, as far as it came, to open it anew."""
        self._let_go(for_good=False)

    def _let_go(self, *, for_good: bool) -> None:
        DBOS.destroy(destroy_registry=for_good)
        if self._engine is not None:
            self._engine.dispose()

    def sweep(self, gone: set[str]) -> None:
        """Delete the queues of workers that will not come back."""
        for queue in DBOS.list_queues():
            if queue.name in gone:
                DBOS.delete_queue(queue.name)

    def _run(self, job_id: str) -> None:
        self._whole = False
        self._begun.set()
        try:
            self._body(job_id)
            self._whole = True
        except Exception:
            log.exception("%s was left by an error", job_id)
            raise Left from None
        finally:
            self._ended.set()

    def _forget(self, workflow_id: str) -> None:
        """Delete a workflow that has ended; what it did is in the table of jobs.

        DBOS notes the end after the body's. Until then the workflow must be let alone: a change
        would have its thread wait for another owner.
        """
        until = time.monotonic() + NOTED_SECONDS
        while time.monotonic() < until:
            status = DBOS.get_workflow_status(workflow_id)
            if status is None or status.status in _ENDED:
                DBOS.delete_workflow(workflow_id)
                return
            time.sleep(0.01)


class _Carried(BaseException):
    """Carries an error out of a step: DBOS records an Exception and would raise it ever after."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def steps_file(database: URL) -> Path:
    """Return the file of DBOS beside a SQLite database of ours."""
    path = Path(str(database.database))
    return path.with_name(f"{path.stem}-steps{path.suffix}")


def _open_sqlite(path: Path) -> Engine:
    """Connect as DBOS does by itself, but with a log that readers need not wait for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 30}, hide_parameters=True)

    def set_up(connection: Any, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    event.listen(engine, "connect", set_up)
    return engine
