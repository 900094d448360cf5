"""Which devices workers take, and where a database may lie."""

import socket
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from server.cli import devices, places
from server.cli.devices import worker_devices
from server.cli.places import network_disk
from server.settings import ServerSettings
from vidgen.errors import BadRequest, Unsupported, VidgenError


@pytest.mark.parametrize(
    ("asked", "number", "gpus", "found"),
    [
        ("auto", None, 0, ("cpu:0",)),
        ("auto", None, 3, ("cuda:0", "cuda:1", "cuda:2")),
        ("auto", 2, 3, ("cuda:0", "cuda:1")),
        ("cpu", 2, 3, ("cpu:0", "cpu:1")),
        ("cuda:1", None, 3, ("cuda:1",)),
        ("auto", 0, 3, ()),
    ],
)
def test_each_gpu_has_a_worker(
    monkeypatch: pytest.MonkeyPatch, asked: str, number: int | None, gpus: int, found: Any
) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: gpus)
    assert worker_devices(asked, number) == found


@pytest.mark.parametrize(
    ("asked", "number", "kind", "said"),
    [
        ("auto", 4, BadRequest, "4 is more than the 3 visible GPUs"),
        ("cuda:0", 2, BadRequest, "do not share cuda:0"),
        ("gpu", None, BadRequest, "none of auto, cpu, cuda"),
        ("cpu", -1, BadRequest, "must be 0 to 64"),
    ],
)
def test_what_cannot_be_is_told(
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    number: int | None,
    kind: type[VidgenError],
    said: str,
) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 3)
    with pytest.raises(kind, match=said):
        worker_devices(asked, number)


def test_cuda_is_not_replaced_by_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "count_gpus", lambda: 0)
    with pytest.raises(Unsupported, match="no NVIDIA GPU"):
        worker_devices("cuda", None)


def test_gpus_are_counted_as_the_environment_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "this_gpu", lambda name: name if int(name) < 5 else None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.count_gpus() == 5
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,4")
    assert devices.count_gpus() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert devices.count_gpus() == 0


def test_a_network_disk_is_known_by_its_longest_mount(tmp_path: Path) -> None:
    here = tmp_path.resolve()
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nhost:/x {here}/far nfs4 rw 0 0\n"
                      f"/dev/b {here}/far/near ext4 rw 0 0\n")  # fmt: skip
    assert network_disk(here / "far" / "a.db", mounts) == "nfs4"
    assert network_disk(here / "farther.db", mounts) is None
    assert network_disk(here / "far" / "near" / "a.db", mounts) is None


def test_sqlite_on_a_network_disk_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "network_disk", lambda _path: "nfs4")
    for command in (["serve", "--workers", "0"], ["worker", "--device", "cpu"], ["keys", "ls"]):
        ran = run(*command)
        assert ran.code == 2
        assert "is on a network disk (nfs4)" in ran.err
    ran = run("doctor", "--json")
    (found,) = [item for item in ran.last["checks"] if item["name"] == "server database"]
    assert found["state"] == "fault"
    assert ran.code == 1


def test_a_second_host_on_sqlite_is_refused(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("keys", "ls").code == 0  # makes the database
    monkeypatch.setattr(places, "other_hosts", lambda _db: ["elsewhere"])
    ran = run("worker", "--device", "cpu")
    assert ran.code == 2
    assert "Workers of elsewhere use this SQLite database too" in ran.err


def test_a_database_of_another_version_is_not_touched(run: Any, tmp_path: Path) -> None:
    settings = ServerSettings().with_home(tmp_path / "home")
    assert run("keys", "ls").code == 0
    db = places.open_or_make(settings)
    with db.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    db.close()
    ran = run("queue", "ls")
    assert ran.code == 2
    assert "is at step 0000 and this version of Vidgen works with" in ran.err


def test_a_database_that_is_away_is_told_without_its_password(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDGEN_DATABASE", "postgresql://u:secret@127.0.0.1:1/none")
    ran = run("queue", "ls")
    assert ran.code == 1
    assert "cannot be reached" in ran.err
    assert "secret" not in ran.err


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what would be started not run."""
    monkeypatch.setattr("server.cli.supervisor.Supervisor.run", lambda *_: 99)
    monkeypatch.setattr("server.worker.main.run_worker", lambda *_: 99)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--home", "/dev/null"], "home: /dev/null/server cannot be written (Not a directory)"),
        (["--store", "/proc/foo"], "store: /proc/foo cannot be written"),
        (["--work", "/proc/foo"], "work: /proc/foo cannot be written"),
        (["--database", "sqlite:////proc/foo/a.db"], "database: /proc/foo cannot be written"),
        (["--database", "sqlite:///."], "cannot be opened: unable to open database file"),
        (["--database", "sqlite:///corrupt.db"], "cannot be opened: file is not a database"),
        (["--database", "sqlite:///foreign.db"], "another program (it has the table 'jobs')"),
        (["--database", "postgresql://u:pw@127.0.0.1:1/x"], "cannot be reached"),
        (["--store", "ftp://x"], "store='ftp://x' is neither a folder nor"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_place_that_cannot_be_used_is_told_before_anything_starts(
    run: Any, nothing_starts: None, tmp_path: Path, command: str, words: list[str], said: str
) -> None:
    (tmp_path / "corrupt.db").write_text("no database at all")
    with sqlite3.connect(tmp_path / "foreign.db") as made:
        made.execute("CREATE TABLE jobs (a)")
    made.close()
    ran = run(command, "--device", "cpu", *words)
    assert ran.code in (1, 2)
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_port_that_is_taken_is_told_before_anything_starts(
    run: Any, nothing_starts: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("serve", "--workers", "0", "--port", port)
    assert ran.code == 2
    assert f"port={port} on 127.0.0.1 cannot be listened on (Address already in use)" in ran.err
    ran = run("serve", "--workers", "0", "--host", "192.0.2.1")
    assert ran.code == 2
    assert "host='192.0.2.1' is no address of this machine" in ran.err
    assert run("serve", "--workers", "0", "--port", "0").code == 99


def test_a_worker_for_a_model_that_is_none_does_not_start(run: Any, nothing_starts: None) -> None:
    ran = run("worker", "--device", "cpu", "--model", "toyworld", "--model", "nomodel")
    assert ran.code == 4
    assert "Model 'nomodel' is not a known name" in ran.err
    assert run("worker", "--device", "cpu", "--model", "toyworld").code == 99
