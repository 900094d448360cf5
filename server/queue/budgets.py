"""Budgets: whether a tenant has used up what it may use."""

from typing import Any

from sqlalchemy import Connection, Row, func, select

from server.database.tables import jobs
from server.queue.accounts import paid_in_month, used_on
from server.queue.rows import among
from server.queue.tenants import Tenant
from server.states import LEASED


def spent(connection: Connection, tenant: Tenant | Row[Any], now: float) -> str | None:
    """Return the sentence that says why a tenant may not begin another job, None when it may.

    What its running jobs are predicted to use counts as used.
    """
    if tenant.gpu_seconds_per_day is None and tenant.budget_per_month is None:
        return None
    if tenant.gpu_seconds_per_day is not None:
        used = used_on(connection, tenant.id, now) + _charged(connection, tenant.id)
        if used >= tenant.gpu_seconds_per_day:
            return (
                f"The tenant used {used:.0f} of {tenant.gpu_seconds_per_day:.0f} GPU-seconds "
                "today (UTC); it goes on tomorrow, or when the bound is raised."
            )
    if tenant.budget_per_month is not None:
        paid = paid_in_month(connection, tenant.id, now)
        if paid >= tenant.budget_per_month:
            return (
                f"The tenant spent {paid:.2f} of its budget of {tenant.budget_per_month:.2f} this "
                "month (UTC); it goes on next month, or when the budget is raised."
            )
    return None


def _charged(connection: Connection, tenant: str) -> float:
    total = select(func.coalesce(func.sum(jobs.c.charged_seconds), 0.0))
    mine = total.where(jobs.c.tenant == tenant, among(LEASED))
    return float(connection.execute(mine).scalar_one())
