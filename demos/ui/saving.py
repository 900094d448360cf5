"""Saving: a file of an app of this process, written while the app sends it.

httpx's own transport to an app holds a whole answer before it hands any of it over.
"""

import asyncio
from collections.abc import Mapping
from io import BufferedWriter
from pathlib import Path

import httpx
from starlette.types import ASGIApp, Message, Scope


async def save_of(
    app: ASGIApp, path: str, headers: Mapping[str, str], target: Path
) -> httpx.Response:
    """Write what an app answers under a path into a file; return the answer without it.

    What is no success is not written and stands in the answer.
    """
    with target.open("wb") as file:
        answer = _Answer(file)
        await app(_scope(path, headers), answer.receive, answer.send)
    return httpx.Response(answer.status, content=answer.refusal)


def _scope(path: str, headers: Mapping[str, str]) -> Scope:
    named = {"host": "127.0.0.1", **headers}
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": b"", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 0),
        "headers": [(name.lower().encode(), text.encode()) for name, text in named.items()],
    }  # fmt: skip


class _Answer:
    """One answer as it comes."""

    def __init__(self, file: BufferedWriter) -> None:
        self.status = 0
        self.refusal = b""
        self._file = file
        self._ended = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        """Say that there is no body; the asker stays until the answer's end."""
        if self._asked:
            await self._ended.wait()
            return {"type": "http.disconnect"}
        self._asked = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        """Take a piece."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            return
        body = message.get("body", b"")
        if httpx.codes.is_success(self.status):
            await asyncio.to_thread(self._file.write, body)
        else:
            self.refusal += body
        if not message.get("more_body", False):
            self._ended.set()
