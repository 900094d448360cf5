"""Artifacts and uploads by key: files in a folder, or objects in a bucket."""

from server.store.facts import FileFacts
from server.store.open import open_store
from server.store.store import Store

__all__ = ["FileFacts", "Store", "open_store"]
