"""The worker process: one device, one job after another, until it is told to go."""

import dataclasses
import importlib
import logging
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from server.database import Database, open_database
from server.database.migrate import migrate
from server.keeping.work import sweep_work
from server.queue import fleet
from server.queue.claim import claim
from server.queue.held import Held
from server.settings import ServerSettings
from server.store import open_store
from server.tracing import set_up_tracing
from server.worker.device import DeviceLock, WorkerDevice, find_worker_device
from server.worker.pulse import Pulse
from server.worker.runner import Runner, Shop
from server.worker.session import Renderer
from server.worker.steps import Steps
from server.worker.stop import EXIT_STUCK

ENGINE = "server.worker.engine_renderer:EngineRenderer"
AWAY_SECONDS = 1.0  # between two looks at a database that is away
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What one worker is told beside the settings of the installation.

    device           auto, cuda, cuda:<n>, cpu or cpu:<n>
    renderer         module:function, called with the device as torch calls it and the home
    pool             that it serves; None: the settings' own
    tenants, models  that it serves; None: all
    """

    device: str = "auto"
    renderer: str = ENGINE
    pool: str | None = None
    tenants: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None


def run_worker(
    settings: ServerSettings,
    home: Path,
    options: WorkerOptions,
    on_ready: Callable[[], None] = lambda: None,
) -> int:
    """Work until a SIGTERM; return the exit code.

    on_ready  called when it begins to look for jobs
    Raises  BadRequest, Unsupported, Busy (the device has a worker) before anything is begun
    """
    set_up_tracing(settings, "vidgen-worker")
    home = home.absolute()
    settings = _absolute(settings.with_home(home))
    device = find_worker_device(options.device)
    lock = DeviceLock(device, home)
    try:
        module, _, name = options.renderer.partition(":")
        make: Callable[[str, Path], Renderer] = getattr(importlib.import_module(module), name)
        process = WorkerProcess(settings, options, device, make(device.name, home))
        return process.run(on_ready)
    finally:
        lock.close()


class WorkerProcess:
    """One worker; it lives in the main thread of its process, which signals come to."""

    def __init__(
        self,
        settings: ServerSettings,
        options: WorkerOptions,
        device: WorkerDevice,
        renderer: Renderer,
    ) -> None:
        self.id = f"{socket.gethostname()}:{device.id}:{secrets.token_hex(6)}"
        self._settings = settings
        self._options = options
        self._device = device
        self._renderer = renderer
        self._db: Database = open_database(settings.database)
        self._steps = Steps(self._db.url, self.id, self._body)
        self._shop = Shop(
            self._db, settings, open_store(settings), renderer, self._steps.step, _give_up
        )
        self._pulse = Pulse(self._db, settings, self.id, renderer)
        self._runner: Runner | None = None
        self._drained = threading.Event()
        self._reaped_at = self._swept_at = 0.0

    def run(self, on_ready: Callable[[], None]) -> int:
        """Work until a SIGTERM, or the second one; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._drain)
        try:
            if not self._reach_database():
                return 0
            log.info("%s is ready", self.id)
            on_ready()
            self._pulse.start()
            while not self._drained.is_set():
                self._look()
            return 0
        finally:
            self._leave()

    def _reach_database(self) -> bool:
        """Wait for the database and enter oneself in it; False when told to go before."""
        while not self._drained.is_set():
            try:
                migrate(self._db)
                self._steps.open()
                fleet.register(self._db, self._worker())
                gone = {worker.id for worker in fleet.list_workers(self._db, gone=True)}
                gone -= {worker.id for worker in fleet.list_workers(self._db)}
                self._steps.sweep(gone)
                return True
            except SQLAlchemyError as error:
                log.warning("The database cannot be reached (%s)", error)
                self._steps.reset()
                self._drained.wait(AWAY_SECONDS)
        return False

    def _worker(self) -> fleet.Worker:
        def listed(names: tuple[str, ...] | None) -> list[str] | None:
            return None if names is None else list(names)

        profile: dict[str, Any] = dataclasses.asdict(self._renderer.profile)
        return fleet.Worker(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            device=self._device.id,
            profile=profile,
            pool=self._options.pool or self._settings.pool,
            free_bytes=self._renderer.free_bytes(),
            version=version("vidgen"),
            tenants=listed(self._options.tenants),
            models=listed(self._options.models),
            state="idle",
            warm=self._renderer.warm(),
        )

    def _look(self) -> None:
        """Take a job and do it, or wait for a while."""
        try:
            held = claim(self._db, self._settings, self.id)
            if held is None:
                self._reap()
                self._drained.wait(self._settings.poll_seconds)
                return
            self._do(held)
        except SQLAlchemyError as error:
            log.warning("The database is away (%s)", error)
            self._drained.wait(AWAY_SECONDS)

    def _reap(self) -> None:
        """Now and then, free the jobs of silent workers, in case no API process does, and delete
        the folders of this machine that nobody needs any more.
        """
        now = time.monotonic()
        if now - self._reaped_at > self._settings.heartbeat_seconds:
            self._reaped_at = now
            fleet.reap(self._db, self._settings)
        if now - self._swept_at > self._settings.sweep_seconds:
            self._swept_at = now
            try:
                sweep_work(self._db, self._settings)
            except OSError as error:  # a folder that cannot be read hinders no job
                log.warning("The work folder is not swept: %s", error)

    def _do(self, held: Held) -> None:
        runner = Runner(self._shop, held)
        self._runner = runner
        if self._drained.is_set():
            runner.stop.ask("drain")
        self._pulse.works(runner)
        try:
            self._steps.run(runner.job.id, runner.job.run)
        except TimeoutError as error:
            _give_up(str(error))
        finally:
            self._runner = None
            self._renderer.rest()
            self._pulse.works(None)

    def _body(self, job_id: str) -> None:
        """Do the job that was claimed; called in the thread of its workflow."""
        runner = self._runner
        assert runner is not None
        assert runner.job.id == job_id
        runner.run()

    def _drain(self, _number: int, _frame: FrameType | None) -> None:
        """Take no further job; stop the one that runs unless it ends in time. At once if asked
        twice.
        """
        if self._drained.is_set():
            os._exit(128 + signal.SIGTERM)
        self._drained.set()
        self._pulse.state = "draining"
        runner = self._runner
        if runner is None:
            return
        most = self._settings.drain_seconds
        if runner.left() > most:
            runner.stop.ask("drain")
            return
        timer = threading.Timer(most, runner.stop.ask, ("drain",))
        timer.daemon = True
        timer.start()

    def _leave(self) -> None:
        """Say good-bye as far as the database hears it."""
        self._pulse.close()
        try:
            self._steps.close()
            fleet.retire(self._db, self._settings, self.id)
        except SQLAlchemyError as error:
            log.warning("The database did not hear the good-bye (%s)", error)
        self._renderer.close()
        self._db.close()


def _absolute(settings: ServerSettings) -> ServerSettings:
    """Name all places from the root on: a job runs with its own folder as the current one."""
    database, file = settings.database, "sqlite:///"
    if database.startswith(file):
        database = f"{file}{Path(database.removeprefix(file)).absolute()}"
    store = settings.store if "://" in settings.store else str(Path(settings.store).absolute())
    return settings.model_copy(
        update={
            "database": database,
            "store": store,
            "work": str(Path(settings.work).absolute()),
        }
    )


def _give_up(why: str) -> None:
    """End the process at once: a thread is stuck, and whoever started us starts another."""
    log.critical("The worker ends itself to be started anew: %s", why)
    logging.shutdown()
    os._exit(EXIT_STUCK)
