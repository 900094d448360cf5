"""Query parameters: those that a route does not know, or that come twice, are refused."""

import difflib
from collections.abc import Iterator
from typing import Any

from fastapi import Request

from server.problems import Problem


def check_query(request: Request) -> None:
    """Refuse query parameters that the route does not read as they are given.

    Raises  Problem invalid_request naming the parameter
    """
    known = {param.alias: param for param in _params(request.scope["route"].dependant)}
    for name in request.query_params:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known) or 'none'}."
            raise Problem(
                "invalid_request", f"Unknown query parameter {name[:60]!r}; {hint}", param=name[:60]
            )
        if len(request.query_params.getlist(name)) > 1 and not _takes_several(known[name]):
            raise Problem("invalid_request", f"{name} is given twice.", param=name)


def _params(dependant: Any) -> Iterator[Any]:
    yield from dependant.query_params
    for inner in dependant.dependencies:
        yield from _params(inner)


def _takes_several(param: Any) -> bool:
    return "list" in str(param.field_info.annotation)
