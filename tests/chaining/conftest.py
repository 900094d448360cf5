"""What the chain's tests share: a disk that need not be flushed, since no power fails here."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
