"""Desk: what the queue's commands do, on a server or on this machine's own database."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from server.cli.client import Client, job_path
from server.cli.options import KEY_VARIABLE, URL_VARIABLE, Reach, Remote
from server.cli.settings import gather_settings
from vidgen.cli.options import Common
from vidgen.cli.place import home_of
from vidgen.errors import BadRequest

Video = dict[str, Any]  # a job as the API shows it

ACTIONS = ("cancel", "pause", "resume", "retry", "hold", "release")


class Desk(Protocol):
    """Jobs, wherever they are; all methods raise errors of vidgen."""

    def jobs(self, states: tuple[str, ...], newest: bool) -> Iterator[Video]:
        """Yield jobs in some states, or in all, by the time they were made."""

    def show(self, job_id: str) -> Video:
        """Return a job with its place in the queue."""

    def act(self, job_id: str, action: str, data: dict[str, Any]) -> Video:
        """Do one of ACTIONS, or move."""

    def events(self, job_id: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, data): all of one job until it ends, or of all jobs from now on."""

    def fetch(self, job_id: str, variant: str, out: Path) -> None:
        """Write a file of a job."""

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers."""


def client_of(reach: Remote) -> Client | None:
    """Return the server that is named, None for this machine.

    Raises  BadRequest for what is no address, or no key
    """
    if reach.server is not None and not reach.server.strip():
        raise BadRequest(
            f"server={reach.server!r} is no address; name one, or leave the option out.",
            field="server",
        )
    address = reach.server or os.environ.get(URL_VARIABLE)
    if not address:
        return None
    return Client(address, reach.key or os.environ.get(KEY_VARIABLE))


def desk_of(reach: Reach, common: Common) -> Desk:
    """Return the server that is named, or the database of this machine.

    Raises  NotFound where there is neither
    """
    client = client_of(reach)
    if client is not None:
        return RemoteDesk(client)
    from server.cli.extra import need_extra

    need_extra("queue")
    from server.cli.local_desk import LocalDesk
    from server.cli.places import open_existing

    flags = {} if reach.database is None else {"database": reach.database}
    settings, _ = gather_settings(flags, common)
    settings = settings.with_home(home_of(common).root.absolute())
    return LocalDesk(open_existing(settings), settings)


class RemoteDesk:
    """The jobs of the key's tenant on a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def jobs(self, states: tuple[str, ...], newest: bool) -> Iterator[Video]:
        """Yield jobs in some states, or in all, by the time they were made."""
        query = {"state": list(states), "order": "desc" if newest else "asc"}
        return map(self._client.video, self._client.pages("/v1/videos", query))

    def show(self, job_id: str) -> Video:
        """Return a job with its place in the queue."""
        return self._client.video(self._client.get(job_path(job_id)))

    def act(self, job_id: str, action: str, data: dict[str, Any]) -> Video:
        """Do one of ACTIONS, or move."""
        return self._client.post(job_path(job_id, action), data)

    def events(self, job_id: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, data): all of one job until it ends, or of all jobs from now on."""
        path = "/v1/events" if job_id is None else job_path(job_id, "events")
        return self._client.events(path)

    def fetch(self, job_id: str, variant: str, out: Path) -> None:
        """Write a file of a job."""
        self._client.download(f"{job_path(job_id, 'content')}?variant={variant}", out)

    def workers(self) -> list[dict[str, Any]]:
        """Return the workers; needs a key with the scope admin."""
        return self._client.listed(self._client.get("/v1/workers"))
