"""A chain's session says of each clip what is known of it."""

from types import SimpleNamespace
from typing import Any

from server.worker.chain_session import ChainSession


def session_of(stopped: bool, clips: int) -> ChainSession:
    """Return a session whose clips are on disk, without opening their chain."""
    take = SimpleNamespace(
        name="000-0",
        seed=1,
        ends=5,
        first=0,
        seam=None,
        record={"recipe": {}, "pixels_sha256": ""},
        plan=SimpleNamespace(place=0, overlap=0),
    )
    session: Any = object.__new__(ChainSession)
    session._run = SimpleNamespace(stopped=stopped, takes=dict.fromkeys(range(clips), take))
    session._given, session._others, session._drift = 0, frozenset(), {}
    return session  # type: ignore[no-any-return]


def test_drift_ends_a_chain_at_its_last_clip_also_when_it_is_taken_up() -> None:
    ended = [session_of(True, 3)._known(idx).ends for idx in range(3)]
    assert ended[:2] == [None, None]
    assert "too far at clip 2" in (ended[2] or "")
    assert session_of(False, 3)._known(2).ends is None
