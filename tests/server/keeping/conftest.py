"""Fixtures that several packages of tests share."""

from tests.server.inputs.desk import desk, looker

__all__ = ["desk", "looker"]
