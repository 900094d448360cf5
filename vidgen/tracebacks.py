"""Exceptions that hold no memory: where they leave us, their tracebacks become text.

A traceback keeps the local variables and closures of all frames that it names, so that whoever
keeps a failed run's exception would keep its latents and hidden states too. Emptying the frames is
not enough: the function of a frame keeps its closure.
"""

import functools
import sys
import traceback
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from vidgen.errors import VidgenError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def drop_frames(error: BaseException, *, known: BaseException | None = None) -> None:
    """Take the frames from an exception, its causes and contexts.

    Where one was raised stands in a note, unless it is one of ours, whose sentence says enough.

    known  an exception that was being handled before; it and what led to it stay as they are
    """
    seen = {id(known)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        item = waiting.pop()
        if item is None or id(item) in seen:
            continue
        seen.add(id(item))
        if item.__traceback__ is not None and not isinstance(item, VidgenError):
            item.add_note("Raised at:\n" + "".join(traceback.format_tb(item.__traceback__)))
        traceback.clear_frames(item.__traceback__)
        item.__traceback__ = None
        waiting += [item.__cause__, item.__context__]


def holding_no_memory(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Take the frames from whatever exception leaves a function."""

    @functools.wraps(function)
    def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        known = sys.exception()
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            drop_frames(error, known=known)
            raise

    return call
