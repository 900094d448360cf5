"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_COUNTER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_DATA = sa.JSON(none_as_null=True)


def upgrade() -> None:
    """Make them in an empty database."""
    _tenants()
    _jobs()
    _parts_of_jobs()
    _fleet()
    _inputs()
    _webhooks()
    _locks()


def _tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("served", sa.Float, nullable=False),
        sa.Column("max_queued", sa.Integer),
        sa.Column("max_running", sa.Integer),
        sa.Column("gpu_seconds_per_day", sa.Float),
        sa.Column("budget_per_month", sa.Float),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scopes", _DATA, nullable=False),
        sa.Column("models", _DATA),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("last_used_at", sa.Float),
        sa.Column("revoked_at", sa.Float),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_api_keys_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_index("ix_api_keys_tenant", "api_keys", ["tenant"])
    op.create_table(
        "usage",
        sa.Column("id", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("day", sa.String(10), nullable=False),
        sa.Column("gpu_seconds", sa.Float, nullable=False),
        sa.Column("clips", sa.Integer, nullable=False),
        sa.Column("frames", sa.Integer, nullable=False),
        sa.Column("price", sa.Float, nullable=False),
        sa.Column("billed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_usage"),
    )
    op.create_index("ix_usage_tenant_day", "usage", ["tenant", "day"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(64)),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("hold_reason", sa.Text),
        sa.Column("held_by", sa.String(16)),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
        sa.Column("started_at", sa.Float),
        sa.Column("completed_at", sa.Float),
        sa.Column("payload", _DATA),
        sa.Column("cipher", sa.LargeBinary),
        sa.Column("options", _DATA, nullable=False),
        sa.Column("decided", _DATA, nullable=False),
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("loras", _DATA, nullable=False),
        sa.Column("pool", sa.String(64), nullable=False),
        sa.Column("tokens", sa.Integer, nullable=False),
        sa.Column("cost_seconds", sa.Float, nullable=False),
        sa.Column("device_bytes", sa.BigInteger, nullable=False),
        sa.Column("disk_bytes", sa.BigInteger, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("rank", sa.Float, nullable=False),
        sa.Column("lease_owner", sa.String(128)),
        sa.Column("lease_epoch", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.Float),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("charged_seconds", sa.Float, nullable=False),
        sa.Column("phase", sa.String(32)),
        sa.Column("step", sa.Integer),
        sa.Column("steps", sa.Integer),
        sa.Column("clips", sa.Integer, nullable=False),
        sa.Column("clips_completed", sa.Integer, nullable=False),
        sa.Column("progress", sa.Integer, nullable=False),
        sa.Column("eta_at", sa.Float),
        sa.Column("stop", sa.String(16)),
        sa.Column("stop_at", sa.Float),
        sa.Column("queue_deadline_at", sa.Float),
        sa.Column("run_limit_seconds", sa.Float),
        sa.Column("retention_seconds", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float),
        sa.Column("artifacts_gone_at", sa.Float),
        sa.Column("idempotency_key", sa.String(255)),
        sa.Column("body_hash", sa.String(64)),
        sa.Column("parent", sa.String(64)),
        sa.Column("parent_kind", sa.String(16)),
        sa.Column("artifacts", _DATA, nullable=False),
        sa.Column("usage", _DATA, nullable=False),
        sa.Column("error", _DATA),
        sa.Column("report", _DATA),
        sa.Column("title", sa.Text),
        sa.Column("tags", _DATA, nullable=False),
        sa.Column("starred", sa.Boolean, nullable=False),
        sa.Column("search", sa.Text),
        sa.Column("trashed_at", sa.Float),
        sa.Column("zdr", sa.Boolean, nullable=False),
        sa.Column("traceparent", sa.String(64)),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_jobs_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("tenant", "idempotency_key", name="uq_jobs_idempotency"),
    )
    op.create_index("ix_jobs_lease", "jobs", ["state", "lease_until"])
    op.create_index("ix_jobs_listing", "jobs", ["tenant", "created_at"])
    op.create_index("ix_jobs_parent", "jobs", ["parent"])
    op.create_index("ix_jobs_queue", "jobs", ["state", "pool", "tenant", "priority", "rank"])


def _parts_of_jobs() -> None:
    op.create_table(
        "job_secrets",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_secrets_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_job_secrets"),
    )
    op.create_table(
        "clips",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("idx", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("seed", sa.BigInteger, nullable=False),
        sa.Column("num_frames", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("worker", sa.String(128), nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("artifacts", _DATA, nullable=False),
        sa.Column("metrics", _DATA, nullable=False),
        sa.Column("finished_at", sa.Float, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_clips_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "idx", name="pk_clips"),
    )
    op.create_table(
        "events",
        sa.Column("seq", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("ts", sa.Float, nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("data", _DATA, nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_events_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_job", "events", ["job_id", "seq"])


def _fleet() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("device", sa.String(128), nullable=False),
        sa.Column("profile", _DATA, nullable=False),
        sa.Column("pool", sa.String(64), nullable=False),
        sa.Column("tenants", _DATA),
        sa.Column("models", _DATA),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("job_id", sa.String(64)),
        sa.Column("warm", _DATA, nullable=False),
        sa.Column("free_bytes", sa.BigInteger, nullable=False),
        sa.Column("version", sa.String(64), nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("heartbeat_at", sa.Float, nullable=False),
        sa.Column("step_at", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "rates",
        sa.Column("model", sa.String(256), nullable=False),
        sa.Column("device", sa.String(128), nullable=False),
        sa.Column("attention", sa.String(64), nullable=False),
        sa.Column("ratio", sa.Float, nullable=False),
        sa.Column("spread", sa.Float, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("updated_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("model", "device", "attention", name="pk_rates"),
    )


def _inputs() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("media_type", sa.String(128), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("facts", _DATA, nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_uploads_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_uploads"),
    )
    op.create_index("ix_uploads_tenant", "uploads", ["tenant"])


def _webhooks() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("event_types", _DATA, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("old_secret", sa.Text),
        sa.Column("old_secret_until", sa.Float),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("disabled_at", sa.Float),
        sa.Column("disabled_reason", sa.Text),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"], name="fk_webhook_endpoints_tenant"),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_endpoints"),
    )
    op.create_index("ix_webhook_endpoints_tenant", "webhook_endpoints", ["tenant"])
    op.create_table(
        "deliveries",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("endpoint_id", sa.String(64)),
        sa.Column("job_id", sa.String(64)),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("payload", _DATA, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("next_at", sa.Float, nullable=False),
        sa.Column("lease_until", sa.Float),
        sa.Column("last_status", sa.Integer),
        sa.Column("last_error", sa.Text),
        sa.Column("traceparent", sa.String(64)),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index("ix_deliveries_due", "deliveries", ["state", "next_at"])
    op.create_index("ix_deliveries_endpoint_id", "deliveries", ["endpoint_id"])
    op.create_index("ix_deliveries_job_id", "deliveries", ["job_id"])
    op.create_index("ix_deliveries_tenant", "deliveries", ["tenant"])


def _locks() -> None:
    op.create_table(
        "locks",
        sa.Column("name", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_locks"),
    )
    names = sa.table("locks", sa.column("name", sa.String))
    op.bulk_insert(names, [{"name": name} for name in ("claim", "admit", "rates")])
