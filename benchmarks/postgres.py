"""A real Postgres for tests and measurements: a cluster of its own in a temporary folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL

_USER = "postgres"


def postgres_binaries() -> Path | None:
    """Return the folder of the newest installed server, None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_version)
    return found[-1].parent if found else None


def _version(path: Path) -> float:
    return float(path.parts[-3])


class Cluster:
    """A cluster that runs until `stop`; it keeps nothing safe from a power cut."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="vidgen-pg-"))
        self._data = self.folder / "data"
        if os.geteuid() == 0:  # initdb refuses to run as root
            owner = pwd.getpwnam(_USER)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._run("initdb", ["-D", self._data, "-U", _USER, "-A", "trust", "-N", "-E", "UTF8"])
        self._databases = 0
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off "
            "-c full_page_writes=off -c synchronous_commit=off -c max_connections=200 "
            "-c shared_buffers=16MB -c autovacuum=off"
        )
        log = self.folder / "log"
        self._run("pg_ctl", ["-D", self._data, "-l", log, "-o", options, "-w", "start"])

    def stop(self, mode: str = "fast") -> None:
        """Stop it: smart, fast, or immediate, as in a crash."""
        self._run("pg_ctl", ["-D", self._data, "-m", mode, "-w", "stop"])

    def remove(self) -> None:
        """Stop it and delete it."""
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def url(self, name: str) -> str:
        """Return the URL of one of its databases."""
        made = URL.create(
            "postgresql", username=_USER, database=name, query={"host": str(self.folder)}
        )
        return made.render_as_string()

    def create(self, template: str = "template0") -> str:
        """Make a database, a copy of another one; return its name."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, name: str) -> None:
        """Delete a database, also while someone is connected."""
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement outside any transaction."""
        url = self.url(database).replace("postgresql:", "postgresql+psycopg:", 1)
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def _run(self, program: str, arguments: Sequence[object]) -> None:
        command = [str(self._binaries / program), *map(str, arguments)]
        if os.geteuid() == 0:
            switch = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
            command = [*switch, *command]
        # The server inherits what it writes to: a pipe would stay open as long as it runs.
        with (self.folder / f"{program}.out").open("wb") as out:
            done = subprocess.run(command, stdout=out, stderr=out, cwd=self.folder, check=False)
        said = (self.folder / f"{program}.out").read_text()
        assert done.returncode == 0, f"{command}: {said}"
