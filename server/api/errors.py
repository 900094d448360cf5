"""Errors: every refusal and failure as the one error object that clients know."""

import logging
import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError, OperationalError
from starlette.exceptions import HTTPException

from server.problems import Problem
from server.queue.retrying import passes
from vidgen.errors import BadMedia, BadRequest, DoesNotFit, NotFound, Unsupported, VidgenError
from vidgen.request_names import what_is_wrong

log = logging.getLogger("vidgen.server")

_HTTP_CODES = {400: "invalid_request", 404: "not_found", 405: "method_not_allowed"}


def problem_of(error: VidgenError, *, planning: bool = False) -> Problem:
    """Return what a refusal of the engine's side is over HTTP; the one place that says so.

    planning  the fields are legal and what they ask for cannot be made
    """
    field = error.field
    if field == "model" and isinstance(error, NotFound | Unsupported):
        code = "unsupported_model"
    elif isinstance(error, DoesNotFit):
        code = "no_worker_fits"
    elif isinstance(error, BadMedia | Unsupported | NotFound):
        code = "unprocessable"
    elif isinstance(error, BadRequest):
        code = "unprocessable" if planning or error.code == "strict" else "invalid_request"
    else:
        code = "internal"
    return Problem(code, error.message, param=field)


def retry_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the wait in milliseconds beside the one in seconds."""
    wait = headers.get("Retry-After")
    if wait is None or not wait.isdigit():
        return dict(headers)
    return {**headers, "retry-after-ms": str(int(wait) * 1000)}


def problem_response(problem: Problem) -> JSONResponse:
    """Return the response that refuses."""
    headers = retry_headers(problem.headers)
    if problem.kind.http == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": problem.as_dict()}, problem.kind.http, headers)


def add_handlers(app: FastAPI) -> None:
    """Let an app answer every error with the error object."""

    @app.exception_handler(Problem)
    def on_problem(_request: Request, error: Problem) -> JSONResponse:
        return problem_response(error)

    @app.exception_handler(VidgenError)
    def on_refusal(_request: Request, error: VidgenError) -> JSONResponse:
        return problem_response(problem_of(error))

    @app.exception_handler(RequestValidationError)
    def on_validation(_request: Request, error: RequestValidationError) -> JSONResponse:
        return problem_response(_of_parameters(error))

    @app.exception_handler(HTTPException)
    def on_http(request: Request, error: HTTPException) -> JSONResponse:
        return _of_router(request, error)

    @app.exception_handler(DBAPIError)
    def on_database(request: Request, error: DBAPIError) -> JSONResponse:
        if not (isinstance(error, OperationalError) or passes(error)):
            return on_fault(request, error)
        if "disk is full" in str(error.orig):  # SQLite's words
            problem = Problem(
                "unavailable",
                "The disk of the database is full, and nothing can be written, not even that "
                "something is deleted; free space there.",
                headers={"Retry-After": "10"},
            )
            log.error("the disk of the database is full")
            return problem_response(problem)
        log.warning("the database does not answer: %s", type(error.orig).__name__)
        problem = Problem(
            "unavailable",
            "The database does not answer; try again.",
            headers={"Retry-After": "2"},
        )
        return problem_response(problem)

    @app.exception_handler(Exception)
    def on_fault(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method[:20], _shown(request), exc_info=error)
        return problem_response(
            Problem("internal", "The server failed at this request; its log says why.")
        )


def _of_parameters(error: RequestValidationError) -> Problem:
    """Name each query parameter or path part at fault."""
    parts, first = [], None
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"][1:])
        first = first or name.split(".")[0] or None
        shown = repr(item.get("input"))
        parts.append(f"{name}={shown[:60]}: {what_is_wrong(item)}")
    return Problem("invalid_request", "; ".join(parts) + ".", param=first)


def _shown(request: Request) -> str:
    """Return a path as a message or a log may hold it."""
    return re.sub(r"[^\x20-\x7e]", "?", request.url.path)[:200]


def _of_router(request: Request, error: HTTPException) -> JSONResponse:
    """Answer for a path or method that is none."""
    data: dict[str, Any]
    path = _shown(request)
    if error.status_code == 405:
        text = f"{request.method[:20]} is not a method of {path}."
    elif error.status_code == 404:
        text = f"There is nothing at {path}."
    else:
        text = str(error.detail)
    code = _HTTP_CODES.get(error.status_code, "invalid_request")
    data = {"code": code, "message": text, "type": "invalid_request_error"}
    data |= {"param": None, "retryable": False}
    return JSONResponse({"error": data}, error.status_code, error.headers)
