"""Ids: short, sortable by the time they were made, and never guessable."""

import secrets
import time

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_id(kind: str) -> str:
    """Return e.g. video_0mq2x1c8f4n0d3kq81x0z9y; `kind` is the part before the first underscore.

    Ids made later sort later, to the millisecond.
    """
    stamp = _base36(int(time.time() * 1000), 9)
    noise = "".join(secrets.choice(_DIGITS) for _ in range(14))
    return f"{kind}_{stamp}{noise}"


def pattern_of(kind: str) -> str:
    """Return the regular expression of the ids of a kind."""
    return rf"{kind}_[0-9a-z]{{1,40}}"


def _base36(number: int, width: int) -> str:
    out = ""
    while number:
        number, digit = divmod(number, 36)
        out = _DIGITS[digit] + out
    return out.rjust(width, "0")
