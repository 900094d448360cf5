"""The store, in a folder and in obstore's memory: what is put is got, whole or not at all."""

import errno
import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest
from obstore.store import MemoryStore

import server.store.folder as folder_module
import server.store.store as store_module
from server.problems import Problem
from server.settings import ServerSettings
from server.store import Store, open_store
from server.store.folder import FolderStore
from vidgen.errors import BadRequest

CONTENT = bytes(range(256)) * 5000  # 1.28 MB


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return Store(MemoryStore())
    return FolderStore(tmp_path / "store")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    path.write_bytes(CONTENT)
    return path


def refused(code: str, function, *arguments) -> Problem:
    with pytest.raises(Problem) as caught:
        function(*arguments)
    assert caught.value.code == code
    return caught.value


def test_put_file_and_get_it(store: Store, source: Path, tmp_path: Path) -> None:
    facts = store.put_file("jobs/video_1/video.mp4", source)
    assert facts.as_dict() == {
        "key": "jobs/video_1/video.mp4",
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "media_type": "video/mp4",
    }
    assert b"".join(store.get_range(facts.key)) == CONTENT
    assert store.head(facts.key)[0] == len(CONTENT)
    assert store.head(facts.key)[1] in (None, facts.sha256)
    store.get_file(facts.key, tmp_path / "deep" / "copy.mp4")
    assert (tmp_path / "deep" / "copy.mp4").read_bytes() == CONTENT
    assert source.read_bytes() == CONTENT


def test_put_again_replaces(store: Store, source: Path) -> None:
    store.put_file("a/b", source)
    store.put_file("a/b", source)  # the same inode: a rename between its links does nothing
    assert list(store.keys("a/")) == ["a/b"]
    store.put_bytes("a/b", b"new")
    assert b"".join(store.get_range("a/b")) == b"new"
    assert source.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (5, 300), (0, None), (1_279_999, None), (1_000_000, 9_999_999)]
)
def test_ranges(store: Store, source: Path, start: int, end: int | None) -> None:
    store.put_file("a/b", source)
    assert b"".join(store.get_range("a/b", start, end)) == CONTENT[start:end]


def test_ranges_outside(store: Store, source: Path) -> None:
    store.put_file("a/b", source)
    for start, end in ((1_280_000, None), (2_000_000, 2_000_001), (7, 6), (-1, 4)):
        problem = refused("range_not_satisfiable", store.get_range, "a/b", start, end)
        assert problem.headers == {"Content-Range": "bytes */1280000"}
    store.put_bytes("a/empty", b"")
    assert list(store.get_range("a/empty")) == []


def test_missing(store: Store, tmp_path: Path) -> None:
    refused("not_found", store.get_range, "a/none")
    refused("not_found", store.head, "a/none")
    refused("not_found", store.get_file, "a/none", tmp_path / "x")
    assert list(store.keys("none/")) == []
    store.delete_prefix("none/")


# Harmless also where the check is broken: nothing here names a place outside the test's folder.
NO_KEYS = (
    "", "../a", "a/../b", "a//b", "a/.", "a/.hidden", "a\\b", "a/b\0", "a/\n", "é", "a/b/",
    "a/" + "x" * 129, "/".join("a" * 11), "FOLDER/outside",
)  # fmt: skip


@pytest.mark.parametrize("key", NO_KEYS)
def test_keys_that_are_none(store: Store, key: str, source: Path, tmp_path: Path) -> None:
    key = key.replace("FOLDER", str(tmp_path))
    for call in (
        lambda: store.put_file(key, source),
        lambda: store.put_bytes(key, b"x"),
        lambda: store.get_range(key),
        lambda: store.head(key),
        lambda: store.get_file(key, tmp_path / "x"),
        lambda: store.local_path(key),
    ):
        refused("invalid_request", call)


@pytest.mark.parametrize("prefix", ["", "jobs", "jobs/a", "../a/", "a/../", "FOLDER/outside/"])
def test_prefixes_that_are_none(store: Store, prefix: str, tmp_path: Path) -> None:
    """Without its slash jobs/a would take jobs/ab too."""
    prefix = prefix.replace("FOLDER", str(tmp_path))
    for call in (store.delete_prefix, store.folders, store.modified):
        refused("invalid_request", call, prefix)
    refused("invalid_request", lambda: list(store.keys(prefix)))


def test_folder_holds_even_without_the_check_of_keys(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path / "store")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    for module in (folder_module, store_module):
        monkeypatch.setattr(module, "check_key", lambda key: key)
        monkeypatch.setattr(module, "check_prefix", lambda prefix: prefix)
    for key in (f"{outside}/kept", "../outside/kept", "a/../../outside/kept"):
        refused("storage_failed", store.put_file, key, source)
        refused("storage_failed", store.put_bytes, key, b"x")
        refused("not_found", store.get_range, key)
    for prefix in (f"{outside}/", "../outside/", f"{outside}/deep/", "../outside/deep/"):
        refused("storage_failed", store.delete_prefix, prefix)
    assert (outside / "kept").read_text() == "kept"
    assert [path.name for path in outside.iterdir()] == ["kept"]


def test_prefixes(store: Store, source: Path) -> None:
    for key in ("jobs/a/x", "jobs/a/in/y", "jobs/ab/z"):
        store.put_file(key, source)
    assert sorted(store.keys("jobs/a/")) == ["jobs/a/in/y", "jobs/a/x"]
    assert store.folders("jobs/") == ["a", "ab"]
    assert store.modified("jobs/a/") > 1_600_000_000
    assert store.modified("jobs/none/") == 0
    store.delete_prefix("jobs/a/")
    store.delete_prefix("jobs/a/")
    assert sorted(store.keys("jobs/")) == ["jobs/ab/z"]


def test_push_and_pull(store: Store, tmp_path: Path) -> None:
    here = tmp_path / "job"
    (here / "takes").mkdir(parents=True)
    (here / "chain.json").write_text("{}")
    (here / "takes" / "0.safetensors").write_bytes(CONTENT)
    (here / "takes" / "1.safetensors.ab.part").write_bytes(b"half")
    (here / ".lock").write_text("")
    made = store.push(here, "jobs/v/work/")
    assert [facts.key for facts in made] == [
        "jobs/v/work/chain.json",
        "jobs/v/work/takes/0.safetensors",
    ]
    (here / "chain.json").unlink()  # a new file, as one that is written whole
    (here / "chain.json").write_text("[]")
    assert [facts.key for facts in store.push(here, "jobs/v/work/")] == ["jobs/v/work/chain.json"]
    there = tmp_path / "other host"
    store.pull("jobs/v/work/", there)
    found = sorted(path.relative_to(there).as_posix() for path in there.rglob("*.*"))
    assert found == ["chain.json", "takes/0.safetensors"]
    assert (there / "chain.json").read_text() == "[]"


def test_reading_goes_on_after_deletion(store: Store, source: Path) -> None:
    store.put_file("a/b", source)
    content = store.get_range("a/b")
    first = next(content)
    store.delete_prefix("a/")
    assert first + b"".join(content) == CONTENT


def test_large_file_costs_little_memory(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    big = tmp_path / "big"
    with big.open("wb") as handle:
        handle.truncate(64 << 20)
    store.put_file("a/b", big)
    tracemalloc.start()
    total = sum(len(piece) for piece in store.get_range("a/b"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 64 << 20
    assert peak < 8 << 20


def test_folder_links_and_leaves_nothing(tmp_path: Path, source: Path) -> None:
    store = FolderStore(tmp_path / "store")
    store.put_file("a/b", source)
    path = store.local_path("a/b")
    assert path is not None
    assert path.samefile(source)
    assert [item.name for item in path.parent.iterdir()] == ["b"]
    assert store.local_path("a/none") is None
    assert store.free_bytes() == pytest.approx(os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize, rel=0.2)  # fmt: skip  # noqa: E501


def test_folder_without_links_copies_and_checks(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_arguments: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(folder_module.os, "link", no_link)
    store = FolderStore(tmp_path / "store")
    store.put_file("a/b", source)
    path = store.local_path("a/b")
    assert path is not None
    assert not path.samefile(source)

    def bad_copy(_source: Path, target: Path) -> None:
        Path(target).write_bytes(CONTENT[:-1] + b"!")

    monkeypatch.setattr(folder_module.shutil, "copyfile", bad_copy)
    refused("storage_failed", store.put_file, "a/c", source)
    assert store.local_path("a/c") is None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    store = FolderStore(tmp_path / "store")
    store.put_bytes("a/b", b"old")

    def full(_path: Path) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(folder_module, "sync_file", full)
    problem = refused("storage_full", store.put_file, "a/b", source)
    assert problem.kind.http == 507
    refused("storage_full", store.put_bytes, "a/new", b"x")
    assert str(tmp_path) not in problem.message
    monkeypatch.undo()
    assert b"".join(store.get_range("a/b")) == b"old"
    assert [path.name for path in (tmp_path / "store" / "a").iterdir()] == ["b"]


def test_links_lead_nowhere(tmp_path: Path, source: Path) -> None:
    store = FolderStore(tmp_path / "store")
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("s3cret")
    (tmp_path / "store" / "out").symlink_to(secret)
    (tmp_path / "store" / "one").symlink_to(secret / "key")
    for key in ("out/key", "one"):
        refused("not_found", store.get_range, key)
        refused("not_found", store.head, key)
        assert store.local_path(key) is None
    refused("storage_failed", store.put_file, "out/new", source)
    store.delete_prefix("out/")
    assert sorted(path.name for path in secret.iterdir()) == ["key"]


def test_damage_on_the_way_is_noticed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    whole = obstore.put

    def losing(objects, key, content, **options):  # type: ignore[no-untyped-def]
        return whole(objects, key, b"lost", **options)

    monkeypatch.setattr(obstore, "put", losing)
    store = Store(MemoryStore())
    refused("storage_failed", store.put_file, "a/b", source)
    refused("not_found", store.head, "a/b")


def test_open_store(tmp_path: Path) -> None:
    store = open_store(ServerSettings().with_home(tmp_path))
    assert isinstance(store, FolderStore)
    for address in ("ftp://host/x", "memory:///", "https://host/x", "file:///etc"):
        with pytest.raises(BadRequest, match="neither a folder nor"):
            open_store(ServerSettings(store=address))
    assert not isinstance(open_store(ServerSettings(store="s3://bucket/folder")), FolderStore)
