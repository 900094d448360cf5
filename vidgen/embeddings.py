"""Text embeddings: made by the model's own pipeline code, kept in memory and on disk.

The text encoder is the largest part of most models and is needed for a second per request, so it is
loaded for a miss and dropped again.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

IN_MEMORY = 64


class EmbeddingCache:
    """Embeddings by key; the newest 64 in memory, all of them on disk when a folder is given.

    It is a cache: what a read-only or full folder cannot take is kept in memory only and made anew
    by the next process, with the same bits. Several processes may share a folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: OrderedDict[str, torch.Tensor] = OrderedDict()

    def get(self, key: str) -> torch.Tensor | None:
        """Return the embedding of a key, or None."""
        found = self._kept.get(key)
        if found is None and self._folder is not None:
            found = _read(self._folder / f"{key}.safetensors")
        if found is not None:
            self._keep(key, found)
        return found

    def put(self, key: str, embedding: torch.Tensor) -> None:
        """Keep an embedding, on disk too where that is possible."""
        self._keep(key, embedding)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                _write(self._folder / f"{key}.safetensors", embedding)

    def _keep(self, key: str, embedding: torch.Tensor) -> None:
        self._kept[key] = embedding
        self._kept.move_to_end(key)
        while len(self._kept) > IN_MEMORY:
            self._kept.popitem(last=False)


def _write(path: Path, embedding: torch.Tensor) -> None:
    """Write one embedding whole or not at all, whoever else writes the same one."""
    from safetensors.torch import save

    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(save({"embedding": embedding.contiguous()}))
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _read(path: Path) -> torch.Tensor | None:
    """Read one cached embedding; a damaged file counts as absent and is made anew."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if not path.is_file():
            return None
        embedding: torch.Tensor = load_file(path)["embedding"]
    except (SafetensorError, KeyError, OSError):
        return None
    return embedding


def embedding_key(
    fingerprint: str, text: str, length: int, dtype: torch.dtype, device: torch.device
) -> str:
    """Return the key of a text for one text encoder.

    Kinds of device and versions of the libraries differ in the last bits, so each has its own.
    """
    versions = [importlib.metadata.version(name) for name in ("torch", "transformers")]
    parts = (fingerprint, str(length), str(dtype), device.type, *versions, text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _sound(found: torch.Tensor | None, length: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a cached embedding if it can be one; a changed file counts as absent."""
    if found is None or found.dtype != dtype or found.ndim != 3:
        return None
    return found if found.shape[:2] == (1, length) and bool(found.isfinite().all()) else None


def embed_texts(
    texts: list[str],
    *,
    tokenizer: Any,
    load_encoder: Callable[[], Any],
    fingerprint: str,
    length: int,
    dtype: torch.dtype,
    device: torch.device,
    cache: EmbeddingCache,
) -> tuple[list[torch.Tensor], int]:
    """Return one embedding (1, length, width) a text on the CPU, and how many came from the cache.

    Each text is encoded alone, as the pipelines do, so that a cached one has the same bits.
    """
    from diffusers import WanPipeline

    keys = [embedding_key(fingerprint, text, length, dtype, device) for text in texts]
    found = {key: _sound(cache.get(key), length, dtype) for key in keys}
    missing = [(k, t) for k, t in zip(keys, texts, strict=True) if found[k] is None]
    if missing:
        encoder = load_encoder().to(device)
        pipe = WanPipeline(tokenizer=tokenizer, text_encoder=encoder, vae=None, scheduler=None)
        with torch.no_grad():
            for key, text in missing:
                made, _ = pipe.encode_prompt(
                    prompt=text,
                    do_classifier_free_guidance=False,
                    max_sequence_length=length,
                    device=device,
                )
                found[key] = made.cpu()
                cache.put(key, made.cpu())
    out = []
    for key in keys:
        embedding = found[key]
        assert embedding is not None
        out.append(embedding)
    return out, len(texts) - len(missing)
