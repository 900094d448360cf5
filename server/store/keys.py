"""Keys of the store: relative paths of plain names, so that none leaves the store."""

import re

from server.problems import Problem

# No dot in front: neither "..", nor hidden files.
_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"
_KEY = re.compile(rf"{_NAME}(?:/{_NAME}){{0,9}}")
_PREFIX = re.compile(rf"(?:{_NAME}/){{1,9}}")


def check_key(key: str) -> str:
    """Return a key, e.g. jobs/video_1/video.mp4, or raise Problem invalid_request."""
    if not _KEY.fullmatch(key):
        raise _refuse(key)
    return key


def check_prefix(prefix: str) -> str:
    """Return a prefix, e.g. jobs/video_1/, or raise Problem; it ends in / so that it names one."""
    if not _PREFIX.fullmatch(prefix):
        raise _refuse(prefix)
    return prefix


def _refuse(key: str) -> Problem:
    return Problem("invalid_request", f"{key[:80]!r} is no name of a stored file.")
