"""Delivering what the outbox holds: each message under a lease, tried again until it is taken.

A try that was sent but not written down, because its process died, is sent again under the same id.
"""

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, case, func, literal, or_, select, update

from server.database.open import Database
from server.database.tables import deliveries, webhook_endpoints
from server.inputs.dialling import Rules
from server.settings import ServerSettings
from server.tracing import tell_answer, webhook_span
from server.webhooks.endpoints import Endpoint, Endpoints
from server.webhooks.outbox import drop
from server.webhooks.send import Answer, rules_of, send

RETRY_SECONDS = (5, 300, 1800, 7200, 18000, 36000, 36000)
JITTER = 0.1  # share by which a wait grows at most, so that receivers are not met all at once
LEASE_SECONDS = 60  # several times the longest try
_THREADS = 8
_GONE = 410
_T = deliveries.c


@dataclass(frozen=True, slots=True)
class _Leased:
    row: Row[Any]
    endpoint: Endpoint | None  # None: it is gone or disabled
    until: float


def deliver_due(
    db: Database,
    settings: ServerSettings,
    clock: Callable[[], float] = time.time,
    limit: int = 50,
    *,
    rules: Rules | None = None,
    jitter: Callable[[], float] = random.random,
) -> int:
    """Try what is due, at most `limit` messages and several at a time; return how many were tried.

    rules   where messages may go; None: as the settings say
    jitter  makes numbers of 0..1
    """
    with db.read() as connection:
        due = connection.execute(select(func.count()).where(*_due(clock()))).scalar_one()
    count = min(int(due), limit)
    if count == 0:
        return 0
    post = _Post(db, settings, clock, rules or rules_of(settings), jitter, Counter())
    with ThreadPoolExecutor(min(count, _THREADS)) as pool:
        return sum(pool.map(lambda _number: post.one(), range(count)))


@dataclass(frozen=True, slots=True)
class _Post:
    db: Database
    settings: ServerSettings
    clock: Callable[[], float]
    rules: Rules
    jitter: Callable[[], float]
    begun: Counter[str]  # tries of each tenant in this turn: whoever had fewest is next

    def one(self) -> int:
        """Try one message; return 0 when none is due any more."""
        leased = self._lease()
        if leased is None:
            return 0
        row, endpoint = leased.row, leased.endpoint
        if endpoint is None:
            self._write(leased, state="dropped", last_error="The endpoint is gone or disabled.")
            return 1
        with webhook_span(row.traceparent, row.id) as (span, traceparent):
            answer = send(
                endpoint.url or row.url,
                row.payload,
                keys=endpoint.secrets,
                message_id=row.id,
                now=self.clock(),
                rules=self.rules,
                traceparent=traceparent,
            )
            tell_answer(span, answer.status, accepted=answer.accepted)
        self._record(leased, answer)
        return 1

    def _lease(self) -> _Leased | None:
        now = self.clock()
        until = now + LEASE_SECONDS
        with self.db.write() as connection:
            had = case(dict(self.begun), value=_T.tenant, else_=0) if self.begun else literal(0)
            chosen = select(_T.id).where(*_due(now)).order_by(had, _T.next_at, _T.id).limit(1)
            found = connection.execute(
                chosen.with_for_update(skip_locked=True)
            ).scalar_one_or_none()
            if found is None:
                return None
            mine = update(deliveries).where(_T.id == found).values(lease_until=until)
            row = connection.execute(mine.returning(*_T)).one()
            self.begun[row.tenant] += 1
        return _Leased(row, self._endpoint(row, now), until)

    def _endpoint(self, row: Row[Any], now: float) -> Endpoint | None:
        if row.endpoint_id is None:
            return Endpoints(self.db, self.settings, self.clock).for_requests(row.tenant)
        table = webhook_endpoints.c
        chosen = select(webhook_endpoints).where(
            table.id == row.endpoint_id, table.disabled_at.is_(None)
        )
        with self.db.read() as connection:
            found = connection.execute(chosen).one_or_none()
        return None if found is None else Endpoint.of(found, now)

    def _record(self, leased: _Leased, answer: Answer) -> None:
        tries = leased.row.tries + 1
        values: dict[str, Any] = {"tries": tries, "last_status": answer.status}
        values["last_error"] = answer.error
        if answer.accepted:
            self._write(leased, state="delivered", **values)
        elif answer.status == _GONE or tries > len(RETRY_SECONDS):
            self._write(leased, state="failed", **values)
        else:
            wait = RETRY_SECONDS[tries - 1] * (1 + JITTER * self.jitter())
            self._write(leased, next_at=self.clock() + wait, **values)
        if answer.status == _GONE and leased.row.endpoint_id is not None:
            self._disable(leased.row.endpoint_id)

    def _write(self, leased: _Leased, **values: Any) -> None:
        """Write down what came of a try, unless the lease has gone to another process."""
        mine = (
            _T.id == leased.row.id,
            _T.state == "pending",
            _T.lease_until == leased.until,
        )
        with self.db.write() as connection:
            connection.execute(update(deliveries).where(*mine).values(lease_until=None, **values))

    def _disable(self, endpoint_id: str) -> None:
        table = webhook_endpoints.c
        with self.db.write() as connection:
            connection.execute(
                update(webhook_endpoints)
                .where(table.id == endpoint_id, table.disabled_at.is_(None))
                .values(disabled_at=self.clock(), disabled_reason="The receiver answered 410.")
            )
            drop(connection, _T.endpoint_id == endpoint_id)


def _due(now: float) -> tuple[ColumnElement[bool], ...]:
    free = or_(_T.lease_until.is_(None), _T.lease_until <= now)
    return _T.state == "pending", _T.next_at <= now, free
