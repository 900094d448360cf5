"""Gate: what stands before the studio; it knows who asks and lets nothing else through.

Everything below the studio's path comes here first: the browser's calls of the API are passed on
with the caller's key, the studio's own files come from one list, Gradio's file routes are closed
(the studio uses none of them), and the rest goes to Gradio.
"""

import html
import re
import time
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import httpx
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from demos.ui.assets import asset
from demos.ui.upstream import Upstream
from demos.ui.works import Works
from server.api.auth import is_loopback

PATH = "/ui"
COOKIE = "vidgen_key"
WHO = "vidgen_who"  # a sign of the tenant, for what a browser remembers of whom
_PAGE_OF = "x-vidgen-page-of"  # as a page tells WHO of its time, with all that it asks
_API = re.compile(
    r"(videos|storyboards|uploads|models|loras|fields|queue|events|workers)(/[\w.-]+){0,5}",
    re.ASCII,
)
_OPEN_PATHS = {"health": "/healthz"}
_CLOSED = re.compile(r"(gradio_api/)?(file|file=.*|file/.*|upload|proxy=.*|stream/.*|component_"
                     r"server|monitoring.*|dev/.*|vibe.*|deep_link|run_history.*|process_recording)"
                     )  # fmt: skip
_OTHER = "Whoever was signed in when this page came no longer is; reload this page."
_CHECK_SECONDS = 5.0
_MOST_CHECKED = 1000
_BODY_BYTES = 4096


class Gate:
    """Answers for everything below /ui that is not Gradio's, and passes the rest on.

    only_here  it answers under the names of this machine alone
    key        used for whoever brings none; None where each person signs in
    """

    def __init__(
        self,
        app: ASGIApp,
        upstream: Upstream,
        *,
        only_here: bool = False,
        key: str | None = None,
    ) -> None:
        self._app = app
        self._upstream = upstream
        self._works = Works(upstream)
        self._only_here = only_here
        self._key = key
        self._checked: dict[str | None, tuple[float, bool]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not _is_ours(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        name = scope["path"].removeprefix(PATH).lstrip("/")
        answer = self._refusal(request) or await self._answer(request, name)
        if answer is not None:
            await answer(scope, receive, send)
        elif name.startswith("api/"):
            await self._pass_on(scope, receive, send, name.removeprefix("api/"))
        else:
            await self._app(scope, receive, send)

    def key_of(self, request: Request) -> str | None:
        """Return the key that a browser brings, or the studio's own."""
        return request.cookies.get(COOKIE) or self._key

    def _refusal(self, request: Request) -> Response | None:
        """Refuse names that are not ours, and what pages of another origin send."""
        if self._only_here and not is_loopback(request.url.hostname or ""):
            return _no("This studio answers only under the names of this machine.")
        origin = request.headers.get("origin")
        changes = request.method not in ("GET", "HEAD")
        if origin and changes and urlsplit(origin).netloc != request.headers.get("host"):
            return _no("Pages of another origin may not use this studio.")
        page = request.headers.get(_PAGE_OF)
        if page is not None and page != request.cookies.get(WHO, ""):
            return _no(_OTHER)
        return None

    async def _answer(self, request: Request, name: str) -> Response | None:
        """Answer what is the gate's own; None for what is passed on."""
        if name.startswith("web/"):
            return asset(name.removeprefix("web/"))
        if name == "login":
            return await self._login(request)
        if name == "logout":
            return self._logout(request)
        if _CLOSED.fullmatch(name):
            return JSONResponse({"detail": "Not Found"}, 404)
        if not await self._may(self.key_of(request)):
            if name == "" and request.method == "GET":
                return RedirectResponse(f"{PATH}/login", 303)
            return JSONResponse({"detail": "Sign in first."}, 401)
        if name.startswith("works/"):
            return await self._works.answer(
                name.removeprefix("works/"), request, self.key_of(request)
            )
        return None

    async def _may(self, key: str | None) -> bool:
        """Whether the server lets this caller read; it is asked again every few seconds."""
        at, found = self._checked.get(key, (0.0, False))
        now = time.monotonic()
        if found and now - at < _CHECK_SECONDS:
            return True
        try:
            answer = await self._upstream.call("GET", "/v1/queue", key)
        except httpx.TransportError:
            return True  # the page says that the server is away
        found = answer.status_code not in (401, 403)
        if len(self._checked) > _MOST_CHECKED:
            self._checked.clear()
        self._checked[key] = (now, found)
        return found

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return HTMLResponse(_page(""))
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _BODY_BYTES:
                return HTMLResponse(_page("That is no API key."), 413)
        key = parse_qs(body.decode("utf-8", "replace")).get("key", [""])[0].strip()
        if not key.isascii() or not key.isprintable() or ";" in key or not await self._may(key):
            return HTMLResponse(_page("The server does not know this key."), 401)
        answer = RedirectResponse(f"{PATH}/", 303)
        sign = await self._sign(key)
        for name, value in ((COOKIE, key), (WHO, sign)):
            answer.set_cookie(name, value, path=PATH, httponly=name == COOKIE, samesite="strict",
                              secure=request.url.scheme == "https")  # fmt: skip
        return answer

    async def _sign(self, key: str) -> str:
        """Return a sign of the tenant whose key it is: a new key of theirs finds their drafts."""
        try:
            found = (await self._upstream.call("GET", "/v1/queue", key)).json()
        except (httpx.TransportError, ValueError):
            found = {}
        whose = f"tenant {found['tenant']}" if "tenant" in found else key
        return sha256(whose.encode()).hexdigest()[:16]

    def _logout(self, request: Request) -> Response:
        if request.method != "POST":
            return JSONResponse({"detail": "Not Found"}, 404)
        answer = RedirectResponse(f"{PATH}/login", 303)
        for name in (COOKIE, WHO):
            answer.delete_cookie(name, path=PATH)
        return answer

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        target = _OPEN_PATHS.get(path)
        if target is None and _API.fullmatch(path) and ".." not in path:
            target = f"/v1/{path}"
        if target is None:
            await JSONResponse({"detail": "Not Found"}, 404)(scope, receive, send)
            return
        key = self.key_of(Request(scope))
        await self._upstream.forward(scope, receive, send, target, key)


def _is_ours(path: str) -> bool:
    return path == PATH or path.startswith(f"{PATH}/")


def _no(text: str) -> Response:
    return JSONResponse({"error": {"code": "forbidden", "message": text}}, 403)


def _page(problem: str) -> str:
    said = f'<p role="alert">{html.escape(problem)}</p>' if problem else ""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Vidgen: sign in\
</title><meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="{PATH}/web/studio.css"></head><body class="vg-login"><main>
<h1>Vidgen</h1><form method="post" action="{PATH}/login">{said}
<label for="key">API key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required autofocus>
<p class="vg-quiet">The server's owner makes one with <code>vidgen keys create</code>.</p>
<button class="vg-button vg-main">Sign in</button></form></main></body></html>"""
