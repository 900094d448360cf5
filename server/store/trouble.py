"""What goes wrong in a store, told as Problems that name the key and no folder of the server."""

import contextlib
import errno
from collections.abc import Iterator

from obstore.exceptions import BaseError

from server.problems import Problem

_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def told(key: str) -> Iterator[None]:
    """Raise not_found, storage_full or storage_failed for what the block raises."""
    try:
        yield
    except FileNotFoundError:
        raise Problem("not_found", f"{key} is not in the store.") from None
    except OSError as error:
        raise of_error(key, error) from error
    except BaseError as error:
        reason = str(error).split("\n", 1)[0][:200]
        raise Problem("storage_failed", f"The store failed over {key}: {reason}.") from error


def of_error(key: str, error: OSError) -> Problem:
    """Return the Problem that an error of the file system means."""
    if error.errno in _FULL:
        return Problem("storage_full", f"The disk is full: {key} is not stored; free some space.")
    return Problem("storage_failed", f"The store failed over {key}: {error.strerror}.")


def damaged(key: str) -> Problem:
    """Return the Problem of a file that reads back otherwise than it was written."""
    return Problem("storage_failed", f"{key} reads back with another length or hash; try again.")
