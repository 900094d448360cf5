"""A child of `vidgen serve`: the API or one worker, told what to do by the process above it.

The order comes as one line of JSON over standard input, so that no process list shows a password;
the same channel carries answers back, and its end means that the process above is gone.
"""

import contextlib
import json
import logging
import os
import signal
import socket
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from server.cli.places import reason_of
from server.problems import Problem
from server.settings import ServerSettings
from vidgen.errors import BadRequest, VidgenError
from vidgen.leaving import run_and_leave

log = logging.getLogger("vidgen.server")


def main() -> int:
    """Do what the order says; return the exit code."""
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    order = json.loads(_line(channel))
    threading.Thread(target=_end_with_parent, args=(channel,), daemon=True).start()
    settings = ServerSettings.model_validate(order["settings"])
    try:
        if order["part"] == "api":
            return _serve(settings, Path(order["home"]), channel, studio=order["studio"])
        return _work(settings, Path(order["home"]), order, channel)
    except Exception as error:  # noqa: BLE001 - the last resort; what is not foreseen is logged
        told = _told(error)
        _tell(channel, error={**told.as_dict(), "exit_code": told.exit_code})
        return told.exit_code


def _told(error: Exception) -> VidgenError:
    """Return the sentence for what ends a child; the log has the rest of what is not foreseen."""
    if isinstance(error, VidgenError):
        return error
    if isinstance(error, Problem):
        return VidgenError(error.message, code=error.code, field=error.param)
    if isinstance(error, SQLAlchemyError):
        return VidgenError(f"The database does not answer: {reason_of(error)}.", code="unavailable")
    if isinstance(error, OSError) and error.filename is not None:
        name = os.fsdecode(error.filename)
        return BadRequest(f"{name!r} cannot be used: {error.strerror}.", code="bad_path")
    log.error("This was not foreseen", exc_info=error)
    text = " ".join(str(error).split())[:300] or "no reason given"
    kind = type(error).__name__
    return VidgenError(f"Something that Vidgen did not foresee went wrong ({kind}: {text}).",
                       code="unexpected")  # fmt: skip


def _serve(settings: ServerSettings, home: Path, channel: socket.socket, *, studio: bool) -> int:
    from server.api.run import serve_api

    # The studio's package is above this one: it is imported by name, as commands are.
    dress = import_module("demos.studio").mount if studio else None
    return serve_api(settings, home, lambda at: _tell(channel, listening=at), dress=dress)


def _work(
    settings: ServerSettings, home: Path, order: dict[str, Any], channel: socket.socket
) -> int:
    from server.api.logs import set_up_logs
    from server.worker.main import WorkerOptions, run_worker

    set_up_logs(settings)
    options = WorkerOptions(**order["worker"])
    return run_worker(settings, home, options, lambda: _tell(channel, ready=True))


def _line(channel: socket.socket) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n"):
        part = channel.recv(65536)
        if not part:
            raise SystemExit(1)  # gone before the order was given
        found += part
    return bytes(found)


def _tell(channel: socket.socket, **data: Any) -> None:
    with contextlib.suppress(OSError):  # nobody is above any more: the other thread ends us
        channel.sendall(json.dumps(data).encode() + b"\n")


def _end_with_parent(channel: socket.socket) -> None:
    """Drain as if asked to when the process above has gone, however it went."""
    with contextlib.suppress(OSError):
        channel.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run_and_leave(main)
