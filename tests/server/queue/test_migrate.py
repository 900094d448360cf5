"""The migrations make what tables.py says, whoever runs them and however many at once."""

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import String, Table, func, insert, select, text, update

from server.database import Database, open_database
from server.database.migrate import alone, current, migrate, newest, upgrade
from server.database.tables import clips, events, jobs, locks, metadata, tenants
from server.queue.jobs import Jobs
from server.queue.tallies import read
from server.settings import ServerSettings
from server.states import JobState
from tests.server.conftest import Clock, migrated
from tests.server.queue.making import Scene, new_job, run_through
from vidgen.errors import BadRequest

MIGRATE = """
import sys
from server.database import Database, open_database
from server.database.migrate import migrate
sys.stdin.readline()
migrate(open_database(sys.argv[1]))
"""


def test_a_fresh_database_equals_the_tables(empty_url: str) -> None:
    db = open_database(empty_url)
    assert current(db) is None
    migrate(db)
    assert current(db) == newest()
    with db.read() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []
        if db.is_sqlite:  # what autogenerate does not see: numbers of events are never used twice
            made = connection.execute(text("SELECT sql FROM sqlite_master WHERE name='events'"))
            assert "AUTOINCREMENT" in made.scalar_one()
    migrate(db)
    db.close()


def test_the_rows_of_locks_are_there(empty_url: str) -> None:
    db = migrated(empty_url)
    with db.read() as connection:
        assert set(connection.execute(select(locks.c.name)).scalars()) == {
            "claim",
            "admit",
            "rates",
        }
    db.close()


def test_two_processes_migrate_at_once(empty_url: str) -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, empty_url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    db = open_database(empty_url)
    assert current(db) == newest()
    with db.read() as connection:
        assert len(connection.execute(select(locks)).all()) == 3
    db.close()


def test_a_database_of_newer_code_is_refused(empty_url: str) -> None:
    db = migrated(empty_url)
    with db.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(BadRequest, match=r"step 9999.*start the newer version"):
        migrate(db)
    db.close()


def test_a_migration_that_fails_leaves_nothing_behind(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_database(empty_url)

    def broken(connection: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("server.database.migrate._check_references", broken)
    with pytest.raises(RuntimeError):
        migrate(db)
    monkeypatch.undo()
    assert current(db) is None
    migrate(db)
    assert current(db) == newest()
    db.close()


def test_jobs_that_wait_since_the_first_migration_still_open(empty_url: str) -> None:
    db = open_database(empty_url)
    with db.write() as connection:
        upgrade(connection, "0001")
        row = {"id": "t", "name": "t", "weight": 1.0, "served": 0.0, "created_at": 0.0}
        connection.execute(insert(tenants).values(row))
    job, _ = Jobs(db, ServerSettings()).create(new_job("t", clips=2))
    migrate(db)
    scene = Scene(db, Clock())
    assert scene.jobs.get(job.id, "t") == job
    scene.work()
    assert run_through(scene.claim()).state is JobState.COMPLETED  # and what it did is counted
    with db.read() as connection:
        assert list(read(connection)["jobs"]) == [("completed", "", "toyworld", "clip")]
    db.close()


def test_files_that_are_gone_are_not_deleted_again_after_an_upgrade(empty_url: str) -> None:
    """The time until which they were kept says since the third step that they are still there."""
    db = open_database(empty_url)
    with db.write() as connection:
        upgrade(connection, "0002")
        row = {"id": "t", "name": "t", "weight": 1.0, "served": 0.0, "created_at": 0.0}
        connection.execute(insert(tenants).values(row))
    made = [Jobs(db, ServerSettings()).create(new_job("t"))[0].id for _ in range(3)]
    with db.write() as connection:
        connection.execute(update(jobs).values(state="completed", expires_at=5.0))
        gone = update(jobs).where(jobs.c.id != made[1])
        connection.execute(gone.values(artifacts_gone_at=6.0))
        connection.execute(update(jobs).where(jobs.c.id == made[2]).values(zdr=True))
    migrate(db)
    kept = {name: Jobs(db, ServerSettings()).get(name, None).expires_at for name in made}
    assert kept == {made[0]: None, made[1]: 5.0, made[2]: 5.0}  # its shredding was broken off
    db.close()


def test_copying_a_table_deletes_nothing_that_refers_to_it(empty_url: str) -> None:
    """As a later migration may: on SQLite a column is altered by copying the table."""
    db = migrated(empty_url)
    with db.write() as connection:
        row = {"id": "t", "name": "t", "weight": 1.0, "served": 0.0, "created_at": 0.0}
        connection.execute(insert(tenants).values(row))
    job, _ = Jobs(db, ServerSettings()).create(new_job("t"))
    assert _rows(db, events) == 1
    _copy_jobs(db)
    assert _rows(db, events) == 1
    assert Jobs(db, ServerSettings()).get(job.id, "t") == job
    with db.write() as connection:  # and afterwards rows that belong to a job go with it again
        connection.execute(jobs.delete())
    assert _rows(db, events) == _rows(db, clips) == 0
    db.close()


def _rows(db: Database, table: Table) -> int:
    with db.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def _copy_jobs(db: Database) -> None:
    with alone(db) as connection:
        operations = Operations(MigrationContext.configure(connection))
        with operations.batch_alter_table("jobs") as batch:
            batch.alter_column("traceparent", type_=String(128))
