"""Erasing: the end of jobs whose deletion had to wait for a worker."""

from sqlalchemy import select

from server.database import Database
from server.database.tables import jobs
from server.keeping import erase
from server.settings import ServerSettings
from server.states import TERMINAL
from server.store import Store


def erase_stopped(database: Database, store: Store, settings: ServerSettings) -> int:
    """Erase the jobs that have stopped since their deletion was asked for; return how many."""
    ended = jobs.c.state.in_(sorted(state.value for state in TERMINAL))
    with database.read() as connection:
        chosen = select(jobs.c.id).where(jobs.c.stop == "delete", ended).limit(100)
        found = list(connection.execute(chosen).scalars())
    for job_id in found:
        erase(database, store, settings, job_id)
    return len(found)
