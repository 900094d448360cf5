"""A clip of the server in this process goes to the disk as it comes."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from demos.ui.upstream import Inside

PIECE, PIECES = bytes(range(256)) * 4096, 16


def saved(app: Any, target: Path, key: str | None = None) -> httpx.Response:
    """Save what an app answers, in a thread: another test's browser may have a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        work = Inside(app, "http://127.0.0.1").save("/v1/videos/a/content", key, target)
        return pool.submit(asyncio.run, work).result()


def test_no_piece_waits_for_the_next(tmp_path: Path) -> None:
    target, heard = tmp_path / "clip.mp4", []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append((scope["path"], dict(scope["headers"])[b"authorization"]))
        assert (await receive())["body"] == b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(PIECES):
            await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            assert target.stat().st_size == len(PIECE) * (number + 1)
        await send({"type": "http.response.body"})
        heard.append(await receive())

    assert saved(app, target, "sk").status_code == 200
    assert heard == [("/v1/videos/a/content", b"Bearer sk"), {"type": "http.disconnect"}]
    assert target.read_bytes() == PIECE * PIECES


def test_a_refusal_is_told_and_not_saved(tmp_path: Path) -> None:
    target = tmp_path / "clip.mp4"

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b'{"error":', "more_body": True})
        await send({"type": "http.response.body", "body": b' {"message": "gone"}}'})

    answer = saved(app, target)
    assert (answer.status_code, answer.json()) == (404, {"error": {"message": "gone"}})
    assert target.read_bytes() == b""
