"""Tallies of what has happened; and jobs whose files are gone no longer wait for their deletion."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_COUNTER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Add the table, and clear the time until which files were kept where they are gone.

    Not of zero-retention jobs: with them it says that a shredding is still to be gone on with.
    """
    op.create_table(
        "tallies",
        sa.Column("id", _COUNTER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("bound", sa.Float),
        sa.Column("times", sa.BigInteger, nullable=False),
        sa.Column("micros", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tallies"),
    )
    jobs = sa.table(
        "jobs",
        sa.column("expires_at"),
        sa.column("artifacts_gone_at"),
        sa.column("zdr", sa.Boolean),
    )
    gone = (jobs.c.artifacts_gone_at.is_not(None), jobs.c.zdr.is_(sa.false()))
    op.execute(jobs.update().where(*gone).values(expires_at=None))
