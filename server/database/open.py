"""Opening the database: SQLite in one file for one machine, or Postgres for a fleet."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from server.database.tables import locks
from server.settings import masked
from vidgen.errors import BadRequest

BUSY_SECONDS = 30  # that a writer waits for another one, SQLite
IDLE_SECONDS = 30  # after which Postgres ends the transaction of a process that has stopped


@dataclass(frozen=True, slots=True)
class Database:
    """One database; every access is a transaction that ends with the `with` block."""

    engine: Engine
    url: URL

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file on this machine."""
        return self.url.get_backend_name() == "sqlite"

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that changes nothing."""
        with self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self, lock: str | None = None) -> Iterator[Connection]:
        """Open a transaction, committed at the end of the block unless it raises.

        lock  name in the table of locks: two transactions with the same one run in turn. SQLite
              has one writer at a time anyway.
        """
        fresh = self.engine.connect().execution_options(vidgen_write=True)
        with fresh as connection, connection.begin():
            if lock is not None and not self.is_sqlite:
                named = select(locks.c.name).where(locks.c.name == lock)
                found = connection.execute(named.with_for_update()).one_or_none()
                assert found is not None, f"no lock named {lock}"
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Connect to a database, whatever its schema; `migrate` brings it up to date.

    url     sqlite:///path or postgresql+psycopg://user@host/name
    Raises  BadRequest for a URL that is neither
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise _refuse(url) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise _refuse(url)
        Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
        parsed = parsed.set(drivername="sqlite")
        engine = create_engine(parsed, connect_args={"timeout": BUSY_SECONDS}, hide_parameters=True)
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif backend in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
        engine = create_engine(
            parsed, pool_pre_ping=True, pool_size=5, max_overflow=20, hide_parameters=True
        )
        event.listen(engine, "connect", _set_up_postgres)
    else:
        raise _refuse(url)
    return Database(engine, parsed)


def _refuse(url: str) -> BadRequest:
    return BadRequest(
        f"database={masked(url)!r} is neither sqlite:///path/to/file.db nor "
        "postgresql://user@host/name; give one of them.",
        field="database",
    )


def _set_up_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # so that BEGIN is ours
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")  # for jobs that must leave nothing
    cursor.close()


def _set_up_postgres(connection: Any, _record: Any) -> None:
    """See to it that a frozen process does not hold a lock for ever."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    """Take the write lock at once where writing is meant: a later upgrade can fail."""
    writes = connection.get_execution_options().get("vidgen_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
