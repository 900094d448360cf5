"""Services: what the handlers of one API process share."""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from server.api.counters import Counters
from server.api.planning import Planner
from server.api.refusals import Refusals
from server.api.watch import Watch
from server.database import Database
from server.inputs.uploads import Uploads
from server.problems import Problem
from server.queue.jobs import Jobs
from server.settings import ServerSettings
from server.store import Store

log = logging.getLogger("vidgen.server")
_ID = re.compile(r"[a-z]{1,16}(?:_[0-9a-z]{1,40}){1,2}")


@dataclass(slots=True)
class Services:
    """What the handlers share.

    draining  set when the process is about to end: readiness says so first
    """

    settings: ServerSettings
    home: Path
    database: Database
    store: Store
    jobs: Jobs
    uploads: Uploads
    planner: Planner
    watch: Watch
    counters: Counters
    refusals: Refusals
    clock: Callable[[], float] = time.time
    draining: bool = field(default=False)


def services_of(request: Request) -> Services:
    """Return what the app was made with."""
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def _services_here(request: Request) -> Services:
    """Return them without a thread, which each dependency that is not async would take."""
    return services_of(request)


ServicesOf = Annotated[Services, Depends(_services_here)]


def check_id(value: str, what: str = "video") -> str:
    """Return an id that has the form of one.

    Raises  Problem not_found: what has another form was never made
    """
    if _ID.fullmatch(value) is None:
        raise Problem("not_found", f"There is no {what} with this id.", param="id")
    return value
