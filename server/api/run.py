"""Run: the API process, from its start to a polite end."""

import logging
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from server.api.app import create_app
from server.api.arenas import share_arenas
from server.api.auth import is_only_here
from server.api.logs import set_up_logs
from server.api.services import Services
from server.settings import ServerSettings
from server.tracing import set_up_tracing

log = logging.getLogger("vidgen.server")

# For which it says to load balancers that it is not ready before it stops listening.
NOTICE_SECONDS = 2.0


class _Server(uvicorn.Server):
    """Says for a moment that it is not ready, lets requests end, and stops; twice: stops now."""

    def __init__(
        self, config: uvicorn.Config, services: Services, on_listening: Callable[[str], None]
    ) -> None:
        super().__init__(config)
        self._services = services
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell where."""
        await super().startup(sockets)
        if self.started:
            self._on_listening(_address(self))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end now when it had begun already."""
        if self._services.draining:
            super().handle_exit(sig, frame)
            return
        self._services.draining = True
        nobody_balances = is_only_here(self._services.settings)
        notice = 0.0 if sig == signal.SIGINT or nobody_balances else NOTICE_SECONDS
        timer = threading.Timer(notice, self._end)
        timer.daemon = True
        timer.start()

    def _end(self) -> None:
        self._services.watch.stop()  # streams would be waited for
        self.should_exit = True


def _address(server: uvicorn.Server) -> str:
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def serve_api(
    settings: ServerSettings,
    home: Path,
    on_listening: Callable[[str], None] | None = None,
    *,
    dress: Callable[[FastAPI, ServerSettings], None] | None = None,
) -> int:
    """Serve until asked to end; return the exit code of the process.

    on_listening  called with the address when requests are answered; None: it is logged
    dress         adds to the app what is not of the API, the studio for one
    Raises        BadRequest as `create_app` does
    """
    share_arenas()
    set_up_logs(settings)
    set_up_tracing(settings, "vidgen-api")
    app = create_app(settings, home)
    if dress is not None:
        dress(app, settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
    )
    tell = on_listening or (lambda address: log.info("listening on %s", address))
    server = _Server(config, app.state.services, tell)
    server.run()
    return 0 if server.started else 1
