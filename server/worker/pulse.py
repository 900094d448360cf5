"""Pulse: the thread that says that the worker lives, which also keeps its lease on its job."""

import logging
import threading
import time
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from server.database.open import Database
from server.queue import fleet
from server.queue.held import LeaseLost
from server.settings import ServerSettings
from server.worker.runner import Runner
from server.worker.session import Renderer

State = Literal["idle", "draining"]
log = logging.getLogger(__name__)


class Pulse:
    """One worker's; it beats until it is closed."""

    def __init__(
        self, db: Database, settings: ServerSettings, worker_id: str, renderer: Renderer
    ) -> None:
        self.state: State = "idle"  # when it has no job
        self._db = db
        self._settings = settings
        self._worker_id = worker_id
        self._renderer = renderer
        self._runner: Runner | None = None
        self._quit = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="pulse", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def close(self) -> None:
        """Beat no more."""
        self._quit.set()
        self._thread.join()

    def works(self, runner: Runner | None) -> None:
        """Say what is done from now on, None for nothing; the database learns it at once."""
        self._runner = runner
        self.beat()

    def beat(self) -> None:
        """Tell the database once; without one, say so in the log and go on."""
        runner = self._runner
        try:
            fleet.heartbeat(
                self._db,
                self._settings,
                self._worker_id,
                state=self.state if runner is None or self.state == "draining" else "busy",
                job_id=None if runner is None else runner.job.id,
                epoch=None if runner is None else runner.job.lease_epoch,
                free_bytes=self._renderer.free_bytes(),
                warm=self._renderer.warm(),
                step_at=None if runner is None else time.time() - runner.beat.still_seconds(),
            )
        except LeaseLost:
            if runner is not None:
                runner.stop.ask("lost")
        except SQLAlchemyError as error:
            log.warning("No heartbeat could be written (%s)", error)

    def _beat_on(self) -> None:
        while not self._quit.wait(self._settings.heartbeat_seconds):
            self.beat()
