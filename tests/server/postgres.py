"""A real Postgres for the tests."""

from benchmarks.postgres import Cluster, postgres_binaries

__all__ = ["Cluster", "postgres_binaries"]
