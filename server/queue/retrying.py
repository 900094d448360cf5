"""Trying again when the database was away for a moment: a restart, a killed connection, a lock."""

import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

_Result = TypeVar("_Result")

_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 2.0
_BUSY = ("database is locked", "database table is locked", "database schema is locked")
# SQLSTATE: a deadlock or a serialisation failure, a transaction that was idle for too long, a
# server that starts, stops or is full
_AGAIN = frozenset({"40001", "40P01", "25P03", "57P01", "57P02", "57P03", "53300"})


def retrying(
    tried: Callable[[], _Result],
    tries: int = 8,
    sleep: Callable[[float], None] = time.sleep,
) -> _Result:
    """Call a function until it meets no passing trouble of the database, at most `tries` times.

    The waits double from 0.1 s to 2 s. The connection may have gone after the commit, so what is
    tried must be a whole transaction that may happen twice: fenced, idempotent or a read.
    """
    wait = _FIRST_SECONDS
    for _ in range(tries - 1):
        try:
            return tried()
        except DBAPIError as error:
            if not passes(error):
                raise
        sleep(wait)
        wait = min(2 * wait, _LONGEST_SECONDS)
    return tried()


def passes(error: DBAPIError) -> bool:
    """Whether an error says that the database is away or busy, rather than that we are wrong."""
    if error.connection_invalidated:
        return True
    cause = error.orig
    state = getattr(cause, "sqlstate", None)
    if state in _AGAIN:
        return True
    if type(cause).__module__.startswith("psycopg"):
        # Without a state the server gave no answer: it cannot be reached.
        return type(cause).__name__ == "OperationalError" and state is None
    return str(cause).startswith(_BUSY)
