"""Who calls: API keys, their scopes and models, and a loopback server that is open without keys."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlsplit

from fastapi import Depends, Request

from server.api.services import Services, services_of
from server.database import Database
from server.problems import Problem
from server.queue.keys import any_key, asks_for_keys, find_key, is_live
from server.settings import ServerSettings
from vidgen.errors import BadRequest

Scope = Literal["create", "read", "admin"]
OPEN_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request.

    key_id  None on an open server
    models  that the key may use; None: all
    """

    tenant: str
    key_id: str | None
    scopes: frozenset[str]
    models: tuple[str, ...] | None

    def check_model(self, name: str) -> None:
        """Raise Problem forbidden for a model that the key may not use."""
        if self.models is not None and name not in self.models:
            raise Problem(
                "forbidden",
                f"This key may not use model {name!r}; it may use {', '.join(self.models)}.",
                param="model",
            )


def is_loopback(host: str) -> bool:
    """Whether an address or name is of this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_only_here(settings: ServerSettings) -> bool:
    """Whether no other machine can reach the server, by itself or through a proxy before it."""
    if not is_loopback(settings.host):
        return False
    return not settings.public_url or is_loopback(urlsplit(settings.public_url).hostname or "")


def check_open(settings: ServerSettings, database: Database) -> None:
    """Raise BadRequest for a server that anyone could reach and use."""
    if "*" in settings.cors_origins:
        raise BadRequest(
            'cors_origins="*" lets every page that you visit use this server; name the origins.',
            field="cors_origins",
        )
    if not is_only_here(settings) and not any_key(database):
        field = "public_url" if is_loopback(settings.host) else "host"
        raise BadRequest(
            f"{field}={getattr(settings, field)} can be reached from other machines and there is "
            "no API key; make one with `vidgen keys create`, or listen on 127.0.0.1.",
            field=field,
        )


def caller_of(request: Request) -> Caller:
    """Return who calls.

    Raises  Problem unauthorized or forbidden
    """
    services = services_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    known = asks_for_keys(services.database)
    if not known and services.settings.open_without_keys and is_only_here(services.settings):
        _refuse_pages(request, services)
        return Caller(OPEN_TENANT, None, frozenset({"create", "read", "admin"}), None)
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem("unauthorized", "Send an API key as `Authorization: Bearer sk-vidgen-..`.")
    key = find_key(services.database, token.strip())
    return Caller(key.tenant, key.id, frozenset(key.scopes), key.models)


def may_still(database: Database, caller: Caller) -> bool:
    """Whether whoever began a stream may go on: their key was not revoked, and none is new."""
    if caller.key_id is None:
        return not asks_for_keys(database)
    return is_live(database, caller.key_id)


def _refuse_pages(request: Request, services: Services) -> None:
    """Refuse a page of another origin, whose forms a browser sends without asking."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    if origin in services.settings.cors_origins:
        return
    if urlsplit(origin).netloc != request.headers.get("host"):
        raise Problem(
            "forbidden", "Pages of another origin may not use this server; see cors_origins."
        )


def needs(scope: Scope) -> Callable[[Request], Caller]:
    """Return a dependency that lets only callers with a scope pass; admin may do everything."""

    def check(request: Request) -> Caller:
        caller = caller_of(request)
        if scope not in caller.scopes and "admin" not in caller.scopes:
            raise Problem("forbidden", f"This key lacks the scope {scope!r}.")
        return caller

    return check


Creator = Annotated[Caller, Depends(needs("create"))]
Reader = Annotated[Caller, Depends(needs("read"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
