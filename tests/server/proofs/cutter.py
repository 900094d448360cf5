"""A proxy in front of a server that cuts every answer off after some bytes, wherever that is."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_HEAD = b"\r\n\r\n"
_KEPT = re.compile(rb"(?i)connection: *keep-alive\r\n")


class Cutter:
    """Listens on a port of this machine; each answer may be a little longer than the last.

    cuts  answers that were cut off
    """

    def __init__(self, port: int, first: int, more: int) -> None:
        """Begin.

        port   of the server
        first  bytes after which the first answer is cut off, and by how much that grows each time
        """
        self.address = ""
        self.cuts = 0
        self.ready = threading.Event()
        self._port = port
        self._room = first
        self._more = more

    def run(self) -> None:
        """Pass requests on until `stop`."""
        asyncio.run(self._serve())

    def stop(self) -> None:
        """End it, and every answer with it."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"http://{host}:{port}"
        self.ready.set()
        await self._stopped.wait()
        server.close()

    async def _pass(self, client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        """Pass on one request without a body, and of its answer the head and some bytes."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            asked = await client.readuntil(_HEAD)
            there, request = await asyncio.open_connection("127.0.0.1", self._port)
            request.write(_KEPT.sub(b"Connection: close\r\n", asked))
            answer.write(await there.readuntil(_HEAD))
            room, self._room = self._room, self._room + self._more
            while room > 0 and (piece := await there.read(room)):
                room -= len(piece)
                answer.write(piece)
                await answer.drain()
            self.cuts += room == 0
            request.close()
        answer.close()


@contextmanager
def cutting(port: int, *, first: int = 500, more: int = 150) -> Iterator[Cutter]:
    """Run a proxy in a thread for the time of the block."""
    made = Cutter(port, first, more)
    thread = threading.Thread(target=made.run)
    thread.start()
    assert made.ready.wait(30)
    try:
        yield made
    finally:
        made.stop()
        thread.join(30)
