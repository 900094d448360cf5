"""Indices that hold what is counted again and again, so that the wide rows are not read for it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_SUMMED = ["cost_seconds", "clips", "clips_completed", "disk_bytes", "charged_seconds"]
_WIDER = {
    "ix_jobs_queue": ["state", "pool", "tenant", "priority", "rank", "id", "model", *_SUMMED],
    "ix_jobs_listing": ["tenant", "created_at", "id", "state"],
    "ix_jobs_lease": ["state", "lease_until", "queue_deadline_at", "started_at",
                      "run_limit_seconds", "id"],
}  # fmt: skip


def upgrade() -> None:
    """Widen three of them, and add one."""
    for name, columns in _WIDER.items():
        op.drop_index(name, "jobs")
        op.create_index(name, "jobs", columns)
    asked = sa.column("stop").is_not(None)
    op.create_index("ix_jobs_stop", "jobs", ["stop"], sqlite_where=asked, postgresql_where=asked)
