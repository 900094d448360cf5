"""What Alembic runs: the migrations, in the transaction that `migrate` has opened."""

from alembic import context

from server.database.tables import metadata

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=metadata,
    # SQLite cannot alter most of a column in place: the table is copied then.
    render_as_batch=connection.dialect.name == "sqlite",
    compare_type=True,
    transactional_ddl=False,
)
context.run_migrations()
