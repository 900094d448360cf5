"""Erasing: the end of jobs whose deletion had to wait for a worker."""

import logging
import time
from collections.abc import Callable

from sqlalchemy import select

from server.database import Database
from server.database.tables import jobs
from server.keeping import erase
from server.problems import Problem
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store

log = logging.getLogger("vidgen.server")


def erase_stopped(
    database: Database,
    store: Store,
    settings: ServerSettings,
    clock: Callable[[], float] = time.time,
) -> int:
    """Erase the jobs that have stopped since their deletion was asked for; return how many.

    One that cannot be erased now does not keep the others: it is tried again at the next turn.
    """
    ended = jobs.c.state.in_(sorted(state.value for state in TERMINAL))
    with database.read() as connection:
        chosen = select(jobs.c.id).where(jobs.c.stop == "delete", ended).limit(100)
        found = list(connection.execute(chosen).scalars())
    done = 0
    for job_id in found:
        try:
            erase(database, store, settings, job_id, clock)
            done += 1
        except Problem as problem:
            if problem.code not in ("not_found", "conflict"):  # someone else was quicker
                log.warning("%s is not erased yet: %s", job_id, problem.message)
    return done
