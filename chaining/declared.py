"""The base of everything that a story's file may say: frozen, and unknown keys are refused by name.

It knows no field of its own.
"""

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from vidgen.request_values import Untrusted


class Declared(Untrusted):
    """A part of a story; a key that it does not know is refused with the nearest ones it does."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        for key in value:
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), cls.model_fields, n=2, cutoff=0.6)
                hint = f"did you mean {' or '.join(near)}" if near else "it has none like it"
                raise ValueError(
                    f"unknown key {str(key)[:60]!r} of a {cls.__name__.lower()}: {hint}"
                )
        return value
