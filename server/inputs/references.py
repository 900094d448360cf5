"""References: what a request's file fields may name, turned into what a worker can find again.

That is an upload or a finished job of the same tenant; data URLs and https URLs become uploads.
"""

import base64
import binascii
import copy
import io
import re
from collections.abc import Callable
from typing import Any

from server.inputs.dialling import Rules
from server.inputs.fields import Slot, slots
from server.inputs.look import Facts
from server.inputs.names import settle_names
from server.inputs.upload import JOB_PREFIX, JOB_REFERENCE, UPLOAD_REFERENCE, Upload
from server.inputs.uploads import Uploads
from server.inputs.url import fetch_url
from server.problems import Problem
from server.queue.jobs import Jobs
from server.settings import ServerSettings
from server.states import JobState
from server.store.trouble import told
from vidgen.request import canonical_names

_DATA = re.compile(r"data:(?:image|video)/[\w.+-]{1,64};base64,", re.IGNORECASE)


def resolve_references(
    payload: dict[str, Any],
    tenant: str,
    uploads: Uploads,
    jobs: Jobs,
    settings: ServerSettings,
    *,
    rules: Rules | None = None,
) -> dict[str, Any]:
    """Return a payload in which every file is "upload:<id>" or "job:<id>" of a finished job.

    payload  {"request": ..} or {"story": ..}, whose fields may go by any of their names
    uploads  which take in what the payload holds or leads to; a job that is made of it has to keep
             them, and all others it names, by `hold_uploads`
    rules    where URLs may lead; None: as the settings say
    Names of models, LoRAs and budgets are checked as well.
    Raises   Problem, naming the field
    """
    made = _canonical(copy.deepcopy(payload))
    settle_names(made, settings)
    resolver = _Resolver(tenant, uploads, jobs, settings, rules)
    for slot in slots(made):
        slot.put(resolver.resolve(slot))
    return made


def wanted_variant(slot: Slot) -> str:
    """Return which result of a job a field takes that names one."""
    return "last_frame" if slot.wanted == "image" else "video"


def _canonical(payload: dict[str, Any]) -> dict[str, Any]:
    """Give fields their own names, so that no file hides under another name."""
    holder = payload.get("story", payload)
    if isinstance(holder, dict) and isinstance(holder.get("request"), dict):
        try:
            holder["request"] = canonical_names(holder["request"])
        except ValueError as error:
            raise Problem("invalid_request", f"{error}.") from None
    return payload


class _Resolver:
    def __init__(
        self,
        tenant: str,
        uploads: Uploads,
        jobs: Jobs,
        settings: ServerSettings,
        rules: Rules | None,
    ) -> None:
        self._tenant = tenant
        self._uploads = uploads
        self._jobs = jobs
        self._settings = settings
        self._rules = rules

    def resolve(self, slot: Slot) -> str:
        value = slot.value
        if match := UPLOAD_REFERENCE.fullmatch(value):
            return self._upload(slot, match[1])
        if match := JOB_REFERENCE.fullmatch(value):
            return self._job(slot, match[1])
        if value[:5].lower() == "data:":
            return self._keep(slot, self._decoded(slot))
        if value[:8].lower() == "https://":
            return self._keep(slot, self._fetched(slot))
        raise Problem(
            "invalid_request",
            f"{slot.name}={value[:80]!r} is no file that is read here; give an upload's id, a "
            "finished job's id, a data: URL or an https: URL.",
            param=slot.name,
        )

    def _keep(self, slot: Slot, take: Callable[[], Upload]) -> str:
        upload = take()
        _check_kind(slot, upload.facts, upload.filename)
        return upload.reference

    def _decoded(self, slot: Slot) -> Callable[[], Upload]:
        match = _DATA.match(slot.value)
        content = slot.value[match.end() :] if match else ""
        if len(content) * 3 // 4 > self._uploads.max_bytes:
            raise Problem(
                "input_too_large",
                f"{slot.name} holds more than {self._settings.upload_max_mib} MiB; send a "
                "smaller file.",
                param=slot.name,
            )
        try:
            data = base64.b64decode(content, validate=True)
        except binascii.Error:
            data = b""
        if not data:
            raise Problem(
                "invalid_request",
                f'{slot.name} is no data URL of the form "data:image/png;base64,<content>".',
                param=slot.name,
            )
        return lambda: self._uploads.add(
            self._tenant, slot.name, io.BytesIO(data), inline=True, param=slot.name
        )

    def _fetched(self, slot: Slot) -> Callable[[], Upload]:
        settings = self._settings

        def take() -> Upload:
            with self._uploads.spool() as path:
                with told("the fetched file"), path.open("wb") as handle:
                    found = fetch_url(
                        slot.value,
                        settings,
                        settings.url_max_mib << 20,
                        handle,
                        field=slot.name,
                        rules=self._rules,
                    )
                name = found.filename or slot.name
                return self._uploads.keep(self._tenant, name, path, inline=True, param=slot.name)

        return take

    def _upload(self, slot: Slot, upload_id: str) -> str:
        try:
            upload = self._uploads.get(upload_id, self._tenant)
        except Problem as problem:
            raise _refuse(slot, problem.code, problem.message.rstrip(".")) from None
        _check_kind(slot, upload.facts, upload.filename)
        return upload.reference

    def _job(self, slot: Slot, job_id: str) -> str:
        try:
            job = self._jobs.get(job_id, self._tenant)
        except Problem as problem:
            raise _refuse(slot, problem.code, problem.message.rstrip(".")) from None
        if job.state is not JobState.COMPLETED:
            raise _refuse(slot, "conflict", f"{job_id} is {job.state}, not completed")
        past = job.expires_at is not None and job.expires_at <= self._uploads.now()
        if past or job.artifacts_gone_at is not None or job.zdr:
            raise _refuse(slot, "gone", f"the files of {job_id} are not kept any more")
        if wanted_variant(slot) not in job.artifacts:
            raise _refuse(slot, "gone", f"{job_id} has no {wanted_variant(slot)}")
        return f"{JOB_PREFIX}{job_id}"


def _check_kind(slot: Slot, facts: Facts, filename: str) -> None:
    if slot.wanted == "image" and facts.kind != "image":
        raise _refuse(slot, "unprocessable", f"{filename} is a video; give a picture")
    if slot.wanted == "video" and facts.kind != "video" and facts.frames == 1:
        raise _refuse(slot, "unprocessable", f"{filename} is a picture; give a video")


def _refuse(slot: Slot, code: str, text: str) -> Problem:
    return Problem(code, f"{slot.name}: {text}.", param=slot.name)
