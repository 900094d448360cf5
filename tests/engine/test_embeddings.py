"""The embedding cache: shared by processes, never in the way of a run, keyed by what changes it."""

import errno
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from vidgen import embeddings
from vidgen.embeddings import EmbeddingCache, embed_texts, embedding_key
from vidgen.families import family
from vidgen.tiny import tiny_components

CPU = torch.device("cpu")
KEY = embedding_key("weights", "a red ball", 32, torch.float32, CPU)
EMBEDDING = torch.arange(64.0).reshape(1, 8, 8)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_two_processes_write_the_same_key_at_once(tmp_path: Path) -> None:
    code = (
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from vidgen.embeddings import EmbeddingCache\n"
        "made = torch.arange(64.0).reshape(1, 8, 8)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "for _ in range(50):\n"
        "    EmbeddingCache(Path(sys.argv[1])).put(sys.argv[2], made)\n"
        "    found = EmbeddingCache(Path(sys.argv[1])).get(sys.argv[2])\n"
        "    assert found is not None and torch.equal(found, made)\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), KEY],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    assert names(tmp_path) == [f"{KEY}.safetensors"]
    found = EmbeddingCache(tmp_path).get(KEY)
    assert found is not None
    assert torch.equal(found, EMBEDDING)


def test_no_two_writers_share_a_temporary_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes may have a cache at the same address: its id() is not a name."""
    seen = []

    def replace(self: Path, target: Path) -> Path:
        seen.append(self)
        return self

    monkeypatch.setattr(Path, "replace", replace)
    cache = EmbeddingCache(tmp_path)
    cache.put(KEY, EMBEDDING)
    cache.put(KEY, EMBEDDING)
    assert len(set(seen)) == 2
    assert {path.parent for path in seen} == {tmp_path}


@pytest.mark.parametrize("where", ["mkdir", "mkstemp", "fdopen", "replace"])
def test_a_folder_that_takes_nothing_stops_no_run(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = tmp_path / "embeddings"
    home = {"mkdir": Path, "replace": Path, "mkstemp": embeddings.tempfile, "fdopen": embeddings.os}
    with monkeypatch.context() as patch:
        patch.setattr(home[where], where, refuse)
        cache = EmbeddingCache(folder)
        cache.put(KEY, EMBEDDING)
        found = cache.get(KEY)
    assert found is not None
    assert torch.equal(found, EMBEDDING)
    assert not folder.exists() or names(folder) == []
    assert EmbeddingCache(folder).get(KEY) is None


def test_a_file_in_the_place_of_the_folder_stops_no_run(tmp_path: Path) -> None:
    parts = tiny_components(family("wan2.1-t2v"))
    (tmp_path / "file").write_text("not a folder")
    made = []
    for cache in (EmbeddingCache(), EmbeddingCache(tmp_path / "file" / "embeddings")):
        found, hits = embed_texts(
            ["a red ball", "dark"], tokenizer=parts.tokenizer,
            load_encoder=parts.load_text_encoder, fingerprint="weights", length=16,
            dtype=torch.float32, device=CPU, cache=cache,
        )  # fmt: skip
        assert hits == 0
        made.append(found)
    assert all(torch.equal(a, b) for a, b in zip(*made, strict=True))


def test_the_key_follows_everything_that_changes_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {
        KEY,
        embedding_key("other", "a red ball", 32, torch.float32, CPU),
        embedding_key("weights", "a blue ball", 32, torch.float32, CPU),
        embedding_key("weights", "a red ball", 64, torch.float32, CPU),
        embedding_key("weights", "a red ball", 32, torch.bfloat16, CPU),
        embedding_key("weights", "a red ball", 32, torch.float32, torch.device("cuda")),
    }
    stock = importlib.metadata.version
    for package in ("torch", "transformers"):
        with monkeypatch.context() as patch:
            patch.setattr(
                importlib.metadata,
                "version",
                lambda name, package=package: "0" if name == package else stock(name),
            )
            keys.add(embedding_key("weights", "a red ball", 32, torch.float32, CPU))
    assert len(keys) == 8
    other = embedding_key("weights", "a red ball", 32, torch.float32, torch.device("cuda:1"))
    assert other in keys
