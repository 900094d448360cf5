"""The one error of this package: something asked for that attention cannot do; and what is asked
often, whether a word is known and a number whole.
"""

from collections.abc import Collection
from typing import Any


class AttentionError(ValueError):
    """A pattern, a shape or a backend cannot be used as asked; the message says why in a sentence.

    field  the option at fault, e.g. "attention_backend"
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def check_word(name: str, value: Any, known: Collection[str]) -> None:
    """Raise AttentionError unless a value is one of the words that an option takes."""
    if value not in known:
        raise AttentionError(f"{name}={value!r} is not one of {', '.join(known)}.", field=name)


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise AttentionError unless a value is a whole number from `least` on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise AttentionError(f"{name}={value!r} is not a whole number from {least} on.", field=name)
