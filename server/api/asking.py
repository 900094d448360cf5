"""Asking: a request that plans a job, from its first file to the job.

Files that come in the body, or are fetched for it, are stored while the job is planned. They stay
only if the job that names them is made: a request that is refused, is only an estimate or gave a
job already leaves nothing behind.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError

from server.api.auth import Caller
from server.api.fields import JobOptions
from server.api.planned import Planned
from server.api.services import Services
from server.api.submit import Origin, Ticket, inputs_of, submit
from server.inputs.deleting import delete_marked, mark_uploads
from server.inputs.fields import references
from server.keeping.needed import replaced_inputs
from server.problems import Problem
from server.queue.job import Job


class Asking:
    """One request.

    services  to plan with: their uploads are the request's
    """

    def __init__(self, services: Services, caller: Caller, kept: set[str]) -> None:
        self.services = services
        self._caller = caller
        self._kept = kept

    def submit(
        self,
        planned: Planned,
        options: JobOptions,
        ticket: Ticket,
        digest: str,
        origin: Origin | None = None,
    ) -> tuple[Job, bool]:
        """Create the job as `submit` does, and keep its files if it is new."""
        with self._known(planned):
            job, replayed = submit(
                self.services, self._caller, planned, options, ticket, digest, origin
            )
        if not replayed:
            self._keep(planned)
        return job, replayed

    def change(self, job: Job, planned: Planned, columns: dict[str, Any]) -> Job:
        """Change a waiting job as `Jobs.edit` does; keep its files, and not those of before."""
        with self._known(planned):
            made = self.services.jobs.edit(job.id, columns, seen=job, inputs=inputs_of(planned))
        self._keep(planned)
        self._drop_replaced(job)
        return made

    def _drop_replaced(self, job: Job) -> None:
        """Delete the files that came inside a job's request as it was, unless a job needs them."""
        services = self.services
        # The change is made; what cannot be deleted now expires or is swept.
        with contextlib.suppress(Problem, DBAPIError):
            with services.database.write() as connection:
                gone = replaced_inputs(connection, job)
                mark_uploads(connection, gone)
            delete_marked(services.database, services.store, gone)

    @contextlib.contextmanager
    def _known(self, planned: Planned) -> Iterator[None]:
        """Keep the files also when the database broke off: nobody knows what it has written."""
        try:
            yield
        except DBAPIError:
            self._keep(planned)
            raise

    def _keep(self, planned: Planned) -> None:
        self._kept |= references(planned.payload)


@contextlib.contextmanager
def asking(services: Services, caller: Caller) -> Iterator[Asking]:
    """Plan a job within the block; what was stored for it and is not kept is deleted at the end."""
    with services.uploads.passing() as (uploads, kept):
        yield Asking(replace(services, uploads=uploads), caller, kept)
