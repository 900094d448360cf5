"""The studio: pages over the server's API, mounted into the server's app or alone beside it.

mount(app, settings, base_url) serves it at /ui of the server itself; launch(server_url, key, host,
port) serves it alone, against a server anywhere. It keeps nothing: jobs, files and their states
are the server's, and what a browser remembers are ids.
"""

from collections.abc import Callable

import gradio as gr
import httpx
import uvicorn
from fastapi import FastAPI
from starlette.responses import RedirectResponse

from demos.ui.create import Create
from demos.ui.gate import PATH, Gate
from demos.ui.pages import head, make_blocks
from demos.ui.theme import theme
from demos.ui.upstream import Elsewhere, Inside, Upstream
from server.api.auth import is_loopback
from server.settings import ServerSettings
from vidgen.errors import BadRequest, VidgenError

_SECONDS = 10.0


def mount(app: FastAPI, settings: ServerSettings, base_url: str = "") -> None:
    """Serve the studio at /ui of the server's own app.

    base_url  under which people reach the API, for what they copy; empty: as the settings say
    """
    told = settings.public_url or f"http://{settings.host}:{settings.port}"
    _mount(app, Inside(app, (base_url or told).rstrip("/")), None, only_here=False)


def studio_app(server_url: str, key: str | None, host: str = "127.0.0.1") -> FastAPI:
    """Return the app of a studio that stands alone.

    key     of whoever signs in with none; only for a studio that this machine alone reaches
    Raises  BadRequest for a studio that others could use without a key of their own
    """
    address = server_url.rstrip("/").removesuffix("/v1")
    if not is_loopback(host):
        _check_keys(address, key, host)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _mount(app, Elsewhere(address), key, only_here=is_loopback(host))
    return app


def launch(
    server_url: str,
    key: str | None,
    host: str = "127.0.0.1",
    port: int = 7860,
    told: Callable[[], None] = lambda: None,
) -> int:
    """Serve the studio alone until it is stopped; return the exit code of the process.

    told    called when it may be served and is about to be
    Raises  BadRequest as `studio_app` does
    """
    app = studio_app(server_url, key, host)
    told()
    server = uvicorn.Server(
        uvicorn.Config(app, host=host, port=port, log_level="warning", server_header=False)
    )
    server.run()
    return 0 if server.started else 1


def _check_keys(address: str, key: str | None, host: str) -> None:
    """Raise BadRequest unless the server asks everyone for a key, and the studio carries none."""
    if key is not None:
        raise BadRequest(
            f"host={host} can be reached from other machines, and all who reach the studio would "
            "use its key; leave key out (each person signs in), or listen on 127.0.0.1.",
            field="key",
        )
    try:
        answer = httpx.get(f"{address}/v1/queue", timeout=_SECONDS)
    except httpx.TransportError:
        raise VidgenError(
            f"The server {address} does not answer, so it is not known whether it asks for keys; "
            "start it first.",
            code="unavailable",
        ) from None
    if answer.status_code != httpx.codes.UNAUTHORIZED:
        raise BadRequest(
            f"host={host} can be reached from other machines and the server {address} asks for no "
            "API key; make one with `vidgen keys create`, or listen on 127.0.0.1.",
            field="host",
        )


def _mount(app: FastAPI, upstream: Upstream, key: str | None, *, only_here: bool) -> None:
    create = Create(upstream, key)

    @app.get("/", include_in_schema=False)
    def home() -> RedirectResponse:
        return RedirectResponse(f"{PATH}/")

    gr.mount_gradio_app(
        app, make_blocks(create), path=PATH, theme=theme(), head=head(create, upstream.address),
        allowed_paths=[], ssr_mode=False, show_error=False, enable_monitoring=False,
        mcp_server=False, pwa=False, run_history=False, max_file_size=1, footer_links=[],
    )  # fmt: skip
    app.add_middleware(Gate, upstream=upstream, only_here=only_here, key=key)
