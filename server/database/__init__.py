"""The database: tables, migrations, and how it is opened."""

from server.database.open import Database, open_database

__all__ = ["Database", "open_database"]
