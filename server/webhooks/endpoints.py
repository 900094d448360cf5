"""Endpoints: where a tenant's events go, and with which secret they are signed."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from server.database.open import Database
from server.database.tables import deliveries, tenants, webhook_endpoints
from server.ids import new_id
from server.inputs.addresses import parse_address
from server.inputs.dialling import Rules
from server.inputs.http import parse_url
from server.problems import Problem
from server.settings import ServerSettings
from server.webhooks.outbox import EVENT_TYPES, drop, made_event
from server.webhooks.send import Answer, rules_of, send
from server.webhooks.sign import hint, new_secret

MAX_ENDPOINTS = 32
OLD_SECRET_SECONDS = 86400
_T = webhook_endpoints.c


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One receiver.

    secrets  that sign now, the newest first
    """

    id: str
    tenant: str
    name: str
    url: str
    event_types: tuple[str, ...]
    created_at: float
    disabled_at: float | None
    disabled_reason: str | None
    secrets: tuple[str, ...] = field(repr=False)

    @property
    def secret_hint(self) -> str:
        """What may be shown of the newest secret."""
        return hint(self.secrets[0])

    @staticmethod
    def of(row: Row[Any], now: float) -> "Endpoint":
        """Make it from a row of the table."""
        old = row.old_secret if (row.old_secret_until or 0) > now else None
        return Endpoint(
            id=row.id,
            tenant=row.tenant,
            name=row.name,
            url=row.url,
            event_types=tuple(row.event_types),
            created_at=row.created_at,
            disabled_at=row.disabled_at,
            disabled_reason=row.disabled_reason,
            secrets=(row.secret,) if old is None else (row.secret, old),
        )


class Endpoints:
    """The endpoints of all tenants; each method sees one tenant's only.

    Every tenant has one more, made when first needed and never listed, whose secret signs what goes
    to the webhook_url of a single request.
    """

    def __init__(
        self, db: Database, settings: ServerSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._db = db
        self._settings = settings
        self._clock = clock

    def create(self, tenant: str, name: str, url: str, event_types: Sequence[str]) -> Endpoint:
        """Add one; its secret is in the answer and is shown only now.

        Raises  Problem invalid_request, quota_exceeded
        """
        self.check_url(url, "url")
        types = _checked(event_types)
        with self._db.write() as connection:
            connection.execute(select(tenants.c.id).where(tenants.c.id == tenant).with_for_update())
            counted = select(func.count()).where(_T.tenant == tenant, _T.url != "")
            if connection.execute(counted).scalar_one() >= MAX_ENDPOINTS:
                raise Problem(
                    "quota_exceeded",
                    f"A tenant has at most {MAX_ENDPOINTS} webhook endpoints; delete one first.",
                )
            values = self._values(tenant, name, url, types) | {"id": new_id("whe")}
            row = connection.execute(insert(webhook_endpoints).values(values).returning(*_T)).one()
        return Endpoint.of(row, self._clock())

    def get(self, endpoint_id: str, tenant: str) -> Endpoint:
        """Return one, or raise Problem not_found."""
        chosen = select(webhook_endpoints).where(*_named(endpoint_id, tenant))
        with self._db.read() as connection:
            row = connection.execute(chosen).one_or_none()
        return self._found(row, endpoint_id)

    def page(
        self, tenant: str, *, after: str | None = None, limit: int = 20
    ) -> tuple[list[Endpoint], bool]:
        """Return endpoints, the newest first, and whether there are more."""
        chosen = select(webhook_endpoints).where(_T.tenant == tenant, _T.url != "")
        if after is not None:
            chosen = chosen.where(_T.id < after)
        chosen = chosen.order_by(_T.id.desc()).limit(limit + 1)
        with self._db.read() as connection:
            rows = connection.execute(chosen).all()
        now = self._clock()
        return [Endpoint.of(row, now) for row in rows[:limit]], len(rows) > limit

    def update(
        self,
        endpoint_id: str,
        tenant: str,
        *,
        name: str | None = None,
        url: str | None = None,
        event_types: Sequence[str] | None = None,
    ) -> Endpoint:
        """Change what is given; one that was disabled is enabled again by a URL.

        Raises  Problem not_found, invalid_request
        """
        values: dict[str, Any] = {} if name is None else {"name": name}
        if url is not None:
            self.check_url(url, "url")
            values |= {"url": url, "disabled_at": None, "disabled_reason": None}
        if event_types is not None:
            values["event_types"] = _checked(event_types)
        if not values:
            return self.get(endpoint_id, tenant)
        return self._change(endpoint_id, tenant, values, _T.url != "")

    def delete(self, endpoint_id: str, tenant: str) -> None:
        """Remove one and what was still to be sent to it, or raise Problem not_found."""
        with self._db.write() as connection:
            chosen = delete(webhook_endpoints).where(*_named(endpoint_id, tenant), _T.url != "")
            self._found(connection.execute(chosen.returning(*_T)).one_or_none(), endpoint_id)
            drop(connection, deliveries.c.endpoint_id == endpoint_id)

    def rotate_secret(self, endpoint_id: str, tenant: str, *, keep_old: bool) -> Endpoint:
        """Give it a new secret, shown only now; the old one signs too for 24 hours if it is kept.

        Raises  Problem not_found
        """
        values: dict[str, Any] = {"secret": new_secret(), "old_secret": None}
        values["old_secret_until"] = None
        if keep_old:
            values["old_secret"] = _T.secret
            values["old_secret_until"] = self._clock() + OLD_SECRET_SECONDS
        return self._change(endpoint_id, tenant, values)

    def test(
        self, endpoint_id: str, tenant: str, event_type: str, *, rules: Rules | None = None
    ) -> Answer:
        """Send a sample event at once and return what the receiver answered.

        Raises  Problem not_found, invalid_request, unprocessable (no answer)
        """
        found = self.get(endpoint_id, tenant)
        (kind,) = _checked([event_type], "event_type")
        now = self._clock()
        answer = send(
            found.url,
            made_event(kind, now, {"id": "video_test", "object": "video", "test": True}),
            keys=found.secrets,
            message_id=new_id("msg"),
            now=now,
            rules=rules or rules_of(self._settings),
        )
        if answer.status is None:
            raise Problem("unprocessable", str(answer.error))
        return answer

    def for_requests(self, tenant: str) -> Endpoint:
        """Return the tenant's one whose secret signs what goes to a request's own webhook_url."""
        chosen = select(webhook_endpoints).where(_T.id == requests_id(tenant))
        with self._db.read() as connection:
            row = connection.execute(chosen).one_or_none()
        if row is None:
            values = self._values(tenant, "webhook_url", "", []) | {"id": requests_id(tenant)}
            # Another process may be first, and its row is as good.
            with contextlib.suppress(IntegrityError), self._db.write() as connection:
                connection.execute(insert(webhook_endpoints).values(values))
            with self._db.read() as connection:
                row = connection.execute(chosen).one()
        return Endpoint.of(row, self._clock())

    def check_url(self, url: str, param: str) -> None:
        """Raise Problem invalid_request for a URL to which nothing could be sent."""
        rules = rules_of(self._settings)
        try:
            host = parse_url(url, rules.schemes).host
        except ValueError as error:
            raise Problem(
                "invalid_request", f"{param}={url[:200]!r} cannot be used: {error}.", param=param
            ) from None
        with contextlib.suppress(ValueError):  # a name: looked up when something is sent
            if not rules.allowed(parse_address(host.decode().strip("[]"))):
                raise Problem(
                    "invalid_request",
                    f"{param}={url[:200]!r} leads to an address that is not public; name another "
                    "receiver, or have webhook_private set on the server.",
                    param=param,
                )

    def _change(
        self, endpoint_id: str, tenant: str, values: dict[str, Any], *conditions: Any
    ) -> Endpoint:
        chosen = update(webhook_endpoints).where(*_named(endpoint_id, tenant), *conditions)
        with self._db.write() as connection:
            row = connection.execute(chosen.values(values).returning(*_T)).one_or_none()
        return self._found(row, endpoint_id)

    def _values(self, tenant: str, name: str, url: str, event_types: list[str]) -> dict[str, Any]:
        return {
            "tenant": tenant,
            "name": name,
            "url": url,
            "event_types": event_types,
            "secret": new_secret(),
            "created_at": self._clock(),
        }

    def _found(self, row: Any, endpoint_id: str) -> Endpoint:
        if row is None:
            raise Problem("not_found", f"There is no webhook endpoint {endpoint_id!r}.")
        return Endpoint.of(row, self._clock())


def requests_id(tenant: str) -> str:
    """Return the id of the tenant's endpoint for single requests."""
    return f"whe_requests_{hashlib.sha256(tenant.encode()).hexdigest()[:32]}"


def _named(endpoint_id: str, tenant: str) -> tuple[Any, Any]:
    return _T.id == endpoint_id, _T.tenant == tenant


def _checked(event_types: Sequence[str], param: str = "event_types") -> list[str]:
    unknown = [name for name in event_types if name not in EVENT_TYPES]
    if unknown or not event_types:
        raise Problem(
            "invalid_request",
            f"{param}={', '.join(unknown)[:200] or 'nothing'} is not what can be told; choose of "
            f"{', '.join(EVENT_TYPES)}.",
            param=param,
        )
    return list(dict.fromkeys(event_types))
