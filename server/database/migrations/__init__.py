"""Migrations: the tables as they were at each step, run by `server.database.migrate`."""
