"""Migrating: bringing a database's tables up to what this code expects."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from server.database.open import Database
from vidgen.errors import BadRequest, VidgenError

_FOLDER = Path(__file__).parent / "migrations"
_POSTGRES_LOCK = 0x7669_6467  # any number that no one else uses in the same database


def newest() -> str:
    """Return the step that this code expects."""
    head = _scripts().get_current_head()
    assert head is not None
    return head


def current(db: Database) -> str | None:
    """Return the step that a database is at, None when it is empty."""
    with db.read() as connection:
        return _current(connection)


def migrate(db: Database) -> None:
    """Bring a database up to date, whole or not at all; several processes may do so at once.

    Raises  BadRequest when it was made by newer code than this
    """
    with alone(db) as connection:
        found = _current(connection)
        if found == newest():
            return
        _refuse_unknown(db, found)
        upgrade(connection)
        _check_references(connection)


def upgrade(connection: Connection, step: str = "head") -> None:
    """Run the migrations up to a step, in the transaction of the connection and with no lock."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, step)


def _refuse_unknown(db: Database, found: str | None) -> None:
    known = {script.revision for script in _scripts().walk_revisions()}
    if found is not None and found not in known:
        raise BadRequest(
            f"The database {db.url.render_as_string()} is at step {found}, which this version of "
            f"Vidgen does not know (its newest is {newest()}); start the newer version, or restore "
            "the backup from before the upgrade.",
            field="database",
        )


@contextlib.contextmanager
def alone(db: Database) -> Iterator[Connection]:
    """Open a transaction that no other process migrates beside."""
    if not db.is_sqlite:
        with db.write() as connection:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_POSTGRES_LOCK})"))
            yield connection
        return
    with db.engine.connect().execution_options(vidgen_write=True) as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        # Copying a table drops the old one, which would delete what refers to it. The switch
        # works outside a transaction only, so it goes to the driver before SQLAlchemy begins one.
        raw.execute("PRAGMA foreign_keys=OFF")
        try:
            with connection.begin():
                yield connection
        finally:
            raw.execute("PRAGMA foreign_keys=ON")


def _check_references(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise VidgenError(
            f"The upgrade of the database would leave {len(broken)} rows that refer to nothing, "
            f"first {tuple(broken[0])}; nothing was changed."
        )


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _scripts() -> ScriptDirectory:
    return ScriptDirectory(str(_FOLDER))
