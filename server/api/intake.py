"""Intake: the files that come with a body or are named in it become uploads of the tenant."""

import re
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import UploadFile

from server.api.auth import Caller
from server.api.references import is_job, named_request, named_story
from server.api.services import Services, check_id
from server.inputs.fields import references
from server.inputs.references import resolve_references
from server.inputs.upload import JOB_PREFIX, PREFIX
from server.problems import Problem
from server.queue.job import Job
from server.states import JobState
from vidgen.request import canonical_names


class Intake:
    """Files of one body."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._tenant = caller.tenant

    def keep(self, field: str, file: UploadFile) -> str:
        """Store a file that came with the body.

        Raises  Problem naming the field
        """
        made = self._services.uploads.add(
            self._tenant, file.filename or field, file.file, inline=True, param=field.split(".")[0]
        )
        return made.reference

    def request(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a clip's fields by canonical names, files by references not yet looked at.

        Raises  Problem
        """
        return named_request(_canonical(fields), self.keep)

    def story(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a story's fields, files by references not yet looked at.

        Raises  Problem
        """
        data = dict(fields)
        if isinstance(data.get("request"), Mapping):
            data["request"] = _canonical(data["request"], "request")
        return named_story(data, self.keep)

    def resolve(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return a payload in which every file is an upload or a finished job of the tenant.

        payload  {"request": ..} or {"story": ..}, validated
        Raises   Problem
        """
        services = self._services
        return resolve_references(
            payload, self._tenant, services.uploads, services.jobs, services.settings
        )

    def facts(self, payload: dict[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Return what is known of every file that a resolved payload names."""
        return {name: self.facts_of(name) for name in references(payload)}

    def facts_of(self, name: str) -> Mapping[str, Any]:
        """Return what is known of one file: kind, width, height, frames, fps.

        Raises  Problem not_found for an upload or a job that the tenant does not have
        """
        if is_job(name):
            return video_facts(self.finished(name.removeprefix(JOB_PREFIX)))
        found = self._services.uploads.get(name.removeprefix(PREFIX), self._tenant)
        return found.facts.as_dict()

    def finished(self, job_id: str) -> Job:
        """Return a job of the tenant that has a video.

        Raises  Problem not_found, conflict or gone
        """
        job = self._services.jobs.get(check_id(job_id), self._tenant)
        if job.state is not JobState.COMPLETED:
            raise Problem(
                "conflict", f"{job.id} is {job.state}, not completed; wait for it.", param="video"
            )
        if job.artifacts_gone_at is not None or "video" not in job.artifacts:
            raise Problem("gone", f"The files of {job.id} have expired.", param="video")
        return job


def _canonical(fields: Mapping[str, Any], whole: str | None = None) -> dict[str, Any]:
    """Return fields by their canonical names.

    whole   what the client calls all of them
    Raises  Problem that names `whole`, or else the field that it begins to tell of
    """
    try:
        return canonical_names(fields)
    except ValueError as error:
        told = re.findall(r"\w+", str(error))
        field = whole or next((word for word in told if word in fields), told[0])
        raise Problem("invalid_request", f"{error}.", param=field) from None


def video_facts(job: Job) -> dict[str, Any]:
    """Return what is known of a finished job's video, as of an upload."""
    decided = job.decided
    known = {name: decided[name] for name in ("width", "height", "fps")}
    return {"kind": "video", "frames": decided["num_frames"], **known}
