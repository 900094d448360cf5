"""The store in a bucket, against a server on this machine that speaks S3."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.problems import Problem
from server.settings import ServerSettings
from server.store import Store, open_store
from tests.server.store.s3 import Bucket, bucket

CONTENT = bytes(range(256)) * 80_000  # 20.5 MB: three parts


@pytest.fixture
def held() -> Iterator[Bucket]:
    with bucket() as running:
        yield running


@pytest.fixture
def store(held: Bucket, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{held.port}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    return open_store(ServerSettings(store="s3://b/vidgen"))


def test_large_file_goes_in_parts_and_comes_back(
    store: Store, held: Bucket, tmp_path: Path
) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(CONTENT)
    facts = store.put_file("jobs/v/video.mp4", path)
    assert facts.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert sum("partNumber" in call for call in held.calls) == 3
    content, notes = held.objects["vidgen/jobs/v/video.mp4"]
    assert content == CONTENT
    notes = {name.lower(): value for name, value in notes.items()}
    assert notes == {"content-type": "video/mp4", "x-amz-meta-sha256": facts.sha256}
    assert store.head(facts.key) == (len(CONTENT), facts.sha256)
    assert b"".join(store.get_range(facts.key, 10_000_000, 10_000_007)) == CONTENT[10**7 :][:7]
    store.get_file(facts.key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert store.local_path(facts.key) is None
    assert store.free_bytes() is None


def test_damage_in_the_bucket_is_noticed(store: Store, held: Bucket, tmp_path: Path) -> None:
    facts = store.put_bytes("jobs/v/report.json", b"{}")
    _, notes = held.objects["vidgen/jobs/v/report.json"]
    held.objects["vidgen/jobs/v/report.json"] = (b"[]", notes)
    with pytest.raises(Problem) as caught:
        store.get_file(facts.key, tmp_path / "back")
    assert caught.value.code == "storage_failed"
    assert list(tmp_path.iterdir()) == []


def test_prefixes(store: Store, held: Bucket) -> None:
    held.objects["other/jobs/a/x"] = (b"not ours", {})
    for key in ("jobs/a/x", "jobs/a/in/y", "jobs/ab/z"):
        store.put_bytes(key, b"1")
    assert sorted(store.keys("jobs/a/")) == ["jobs/a/in/y", "jobs/a/x"]
    assert store.folders("jobs/") == ["a", "ab"]
    assert store.modified("jobs/a/") == 1_767_225_600
    store.delete_prefix("jobs/a/")
    assert sorted(held.objects) == ["other/jobs/a/x", "vidgen/jobs/ab/z"]
    for call in (lambda: store.head("jobs/a/x"), lambda: store.get_range("jobs/a/x")):
        with pytest.raises(Problem, match="not in the store"):
            call()


def test_push_skips_what_is_there(store: Store, held: Bucket, tmp_path: Path) -> None:
    (tmp_path / "take").write_bytes(b"1")
    assert len(store.push(tmp_path, "jobs/v/work/")) == 1
    before = sum(call.startswith("PUT") for call in held.calls)
    assert store.push(tmp_path, "jobs/v/work/") == []
    assert sum(call.startswith("PUT") for call in held.calls) == before
