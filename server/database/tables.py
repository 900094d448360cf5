"""The tables. Times are seconds since 1970 (UTC, float); JSON columns hold plain data.

The schema changes only by a migration in `migrations/`; a test compares the two.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite counts rows only in a column of exactly INTEGER.
_Counter = BigInteger().with_variant(Integer, "sqlite")
_Data = JSON(none_as_null=True)  # None is SQL's null, not JSON's: IS NULL finds it

tenants = Table(
    "tenants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("weight", Float, nullable=False),  # share of the workers against other tenants
    Column("served", Float, nullable=False),  # virtual seconds: predicted cost / weight, claimed
    Column("max_queued", Integer),  # null: settings.tenant_max_queued
    Column("max_running", Integer),
    Column("gpu_seconds_per_day", Float),
    Column("budget_per_month", Float),  # in the currency of settings.price_per_gpu_hour
    Column("created_at", Float, nullable=False),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("hash", String(64), nullable=False, unique=True),  # sha256 of the key, hex
    Column("scopes", _Data, nullable=False),  # of "create", "read", "admin"
    Column("models", _Data),  # names that it may use; null: all
    Column("created_at", Float, nullable=False),
    Column("last_used_at", Float),
    Column("revoked_at", Float),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", ForeignKey("tenants.id"), nullable=False),
    Column("key_id", String(64)),
    Column("kind", String(16), nullable=False),  # clip | chain
    Column("state", String(16), nullable=False),
    Column("hold_reason", Text),
    Column("held_by", String(16)),  # fit | budget | person; only a person ends the last
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("started_at", Float),  # first denoise step of the current run
    Column("completed_at", Float),
    # What is asked. payload is {"request": ..} or {"story": ..}, with file references as
    # "upload:<id>" or "input:<name>"; for zero-retention jobs it is null and cipher holds it.
    Column("payload", _Data),
    Column("cipher", LargeBinary),
    Column("options", _Data, nullable=False),  # the server's own fields of the body
    Column("decided", _Data, nullable=False),  # of the plan: width, height, fps, .., adjustments
    Column("model", String(256), nullable=False),
    Column("loras", _Data, nullable=False),  # their names
    Column("pool", String(64), nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("cost_seconds", Float, nullable=False),  # predicted, middle of the interval
    Column("device_bytes", BigInteger, nullable=False),  # lower bound of the memory needed
    Column("disk_bytes", BigInteger, nullable=False),
    # Order: priority 0 normal, 1 high, -1 low; rank orders equal priorities of one tenant.
    Column("priority", Integer, nullable=False),
    Column("rank", Float, nullable=False),
    # Who has it. Every write of a worker names lease_owner and lease_epoch, or changes nothing.
    Column("lease_owner", String(128)),
    Column("lease_epoch", Integer, nullable=False),
    Column("lease_until", Float),
    Column("losses", Integer, nullable=False),  # workers that went away in this run
    Column("run", Integer, nullable=False),  # explicit resumes and retries
    Column("charged_seconds", Float, nullable=False),  # of its tenant at the claim, not yet settled
    # Progress
    Column("phase", String(32)),  # load, encode, condition, denoise, decode, write
    Column("step", Integer),
    Column("steps", Integer),
    Column("clips", Integer, nullable=False),
    Column("clips_completed", Integer, nullable=False),
    Column("progress", Integer, nullable=False),  # 0..99, 100 when completed
    Column("eta_at", Float),
    # Asked of the worker that has it
    Column("stop", String(16)),  # cancel | pause | delete | deadline
    Column("stop_at", Float),
    # Deadlines
    Column("queue_deadline_at", Float),
    Column("run_limit_seconds", Float),
    Column("retention_seconds", Float, nullable=False),
    Column("expires_at", Float),
    Column("artifacts_gone_at", Float),
    # Retries of clients
    Column("idempotency_key", String(255)),
    Column("body_hash", String(64)),
    # Lineage
    Column("parent", String(64)),
    Column("parent_kind", String(16)),  # remix | edit | extension | fork | retry | storyboard
    # Results
    Column("artifacts", _Data, nullable=False),  # variant -> {key, bytes, sha256, media_type}
    Column("usage", _Data, nullable=False),
    Column("error", _Data),
    Column("report", _Data),  # quality and drift of the result
    # Library
    Column("title", Text),
    Column("tags", _Data, nullable=False),
    Column("starred", Boolean, nullable=False),
    Column("search", Text),  # lower-case prompt and title; null for zero-retention jobs
    Column("trashed_at", Float),
    Column("zdr", Boolean, nullable=False),
    Column("traceparent", String(64)),
    # Rows of jobs are wide. These hold all that is counted and looked for again and again.
    Index("ix_jobs_queue", "state", "pool", "tenant", "priority", "rank", "id", "model",
          "cost_seconds", "clips", "clips_completed", "disk_bytes", "charged_seconds"),
    Index("ix_jobs_listing", "tenant", "created_at", "id", "state"),
    Index("ix_jobs_lease", "state", "lease_until", "queue_deadline_at", "started_at",
          "run_limit_seconds", "id"),
    Index("ix_jobs_stop", "stop", sqlite_where=text("stop IS NOT NULL"),
          postgresql_where=text("stop IS NOT NULL")),
    Index("ix_jobs_parent", "parent"),
    UniqueConstraint("tenant", "idempotency_key", name="uq_jobs_idempotency"),
)  # fmt: skip

job_secrets = Table(
    "job_secrets",  # keys of zero-retention payloads; deleting a row makes the payload unreadable
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", LargeBinary, nullable=False),
)

clips = Table(
    "clips",
    metadata,
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("idx", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),  # 0; 1.. after an unusable one
    Column("seed", BigInteger, nullable=False),
    Column("num_frames", Integer, nullable=False),  # that it adds to the video
    Column("sha256", String(64), nullable=False),  # of its latents
    Column("worker", String(128), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("artifacts", _Data, nullable=False),
    Column("metrics", _Data, nullable=False),
    Column("finished_at", Float, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("seq", _Counter, primary_key=True, autoincrement=True),
    Column("job_id", ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("ts", Float, nullable=False),
    Column("type", String(64), nullable=False),
    Column("data", _Data, nullable=False),
    Index("ix_events_job", "job_id", "seq"),
    sqlite_autoincrement=True,  # a number is never used twice, also after deletions
)

workers = Table(
    "workers",
    metadata,
    Column("id", String(128), primary_key=True),  # host:device:nonce
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("device", String(128), nullable=False),  # uuid of the GPU, or cpu-<n>
    Column("profile", _Data, nullable=False),  # DeviceProfile.as_dict
    Column("pool", String(64), nullable=False),
    Column("tenants", _Data),  # that it serves; null: all
    Column("models", _Data),  # that it serves; null: all
    Column("state", String(16), nullable=False),  # starting | idle | busy | draining | gone
    Column("job_id", String(64)),
    Column("warm", _Data, nullable=False),  # {"model": .., "loras": [..]}
    Column("free_bytes", BigInteger, nullable=False),
    Column("version", String(64), nullable=False),
    Column("started_at", Float, nullable=False),
    Column("heartbeat_at", Float, nullable=False),
    Column("step_at", Float),  # when its job last made progress
)

rates = Table(
    "rates",  # measured over predicted seconds, by what was run
    metadata,
    Column("model", String(256), primary_key=True),
    Column("device", String(128), primary_key=True),  # DeviceProfile.name
    Column("attention", String(64), primary_key=True),
    Column("ratio", Float, nullable=False),  # exponentially weighted mean of log2, as a factor
    Column("spread", Float, nullable=False),  # of the same, as a factor
    Column("count", Integer, nullable=False),
    Column("updated_at", Float, nullable=False),
)

usage = Table(
    "usage",
    metadata,
    Column("id", _Counter, primary_key=True, autoincrement=True),
    Column("tenant", String(64), nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("model", String(256), nullable=False),
    Column("day", String(10), nullable=False),  # YYYY-MM-DD, UTC
    Column("gpu_seconds", Float, nullable=False),
    Column("clips", Integer, nullable=False),
    Column("frames", Integer, nullable=False),
    Column("price", Float, nullable=False),
    Column("billed", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("ix_usage_tenant_day", "tenant", "day"),
)

tallies = Table(
    "tallies",  # what has happened so far; rows are added, and folded, but never changed
    metadata,
    Column("id", _Counter, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False),
    Column("labels", Text, nullable=False),  # values, as JSON
    Column("bound", Float),  # of a histogram's bucket; null: without, or it is a counter
    Column("times", BigInteger, nullable=False),
    Column("micros", BigInteger, nullable=False),  # of a second; whole, so that sums are exact
)

uploads = Table(
    "uploads",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("key", Text, nullable=False),  # in the store
    Column("filename", Text, nullable=False),
    Column("media_type", String(128), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("facts", _Data, nullable=False),  # width, height, frames, ..
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

webhook_endpoints = Table(
    "webhook_endpoints",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", ForeignKey("tenants.id"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("event_types", _Data, nullable=False),
    Column("secret", Text, nullable=False),
    Column("old_secret", Text),  # signs too until old_secret_until
    Column("old_secret_until", Float),
    Column("created_at", Float, nullable=False),
    Column("disabled_at", Float),
    Column("disabled_reason", Text),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(64), primary_key=True),  # the webhook-id, the same in every try
    Column("tenant", String(64), nullable=False, index=True),
    Column("endpoint_id", String(64), index=True),  # null: the job's own webhook_url
    Column("job_id", String(64), index=True),
    Column("url", Text, nullable=False),
    Column("type", String(64), nullable=False),
    Column("payload", _Data, nullable=False),
    Column("state", String(16), nullable=False),  # pending | delivered | failed | dropped
    Column("tries", Integer, nullable=False),
    Column("next_at", Float, nullable=False),
    Column("lease_until", Float),
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("traceparent", String(64)),
    Column("created_at", Float, nullable=False),
    Index("ix_deliveries_due", "state", "next_at"),
)

# One row each; a transaction that locks a row of it runs alone among its like.
locks = Table("locks", metadata, Column("name", String(32), primary_key=True))
