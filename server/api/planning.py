"""Planning: a clip's request becomes everything that is decided before it waits; no model loads."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from server.api.devices import Candidate, Devices
from server.api.errors import problem_of
from server.api.planned import Planned
from server.api.plans import Plans
from server.database import Database
from server.problems import Problem
from server.queue.rates import corrected
from vidgen.device import DeviceProfile
from vidgen.errors import DoesNotFit, VidgenError
from vidgen.inputs import Inputs, VideoFile
from vidgen.plan import Plan
from vidgen.request import VideoRequest, parse_request
from vidgen.workload import Interval

Facts = Mapping[str, Any]
_Made = TypeVar("_Made")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """For whom and where a job is planned."""

    tenant: str
    pool: str


class Planner:
    """Plans for the device that will most likely run the job."""

    def __init__(self, database: Database, devices: Devices) -> None:
        self._database = database
        self._plans = Plans()
        self.devices = devices

    def clip(self, fields: Mapping[str, Any], facts: Mapping[str, Facts], place: Place) -> Planned:
        """Decide about one clip.

        fields  canonical and valid, files as references
        facts   of each reference: width, height and, for videos, frames and fps
        Raises  Problem
        """
        request = parse_request(fields)
        if request.n != 1:
            raise Problem(
                "unprocessable",
                f"n={request.n}: a job is one video; send {request.n} requests with seeds that "
                "count up.",
                param="n",
            )
        model = self.devices.model(request.model)
        made = self.on_best(
            place,
            request.model,
            lambda device: self._plans.plan(
                request, device, model, repr(facts), lambda: _inputs(request, facts)
            ),
            lambda made: made.check_fits(),
        )
        return _planned(request, made, self.factor(made))

    def factor(self, made: Plan) -> float:
        """Return what predictions for such a plan were off by so far."""
        found = corrected(self._database, made.model.name, made.device.name, made.attention.name)
        return float(found[0])

    def on_best(
        self,
        place: Place,
        model: str,
        make: Callable[[DeviceProfile], _Made],
        check: Callable[[_Made], None],
    ) -> _Made:
        """Return what is made for the first device that it fits.

        Raises  Problem
        """
        found = self.devices.candidates(place.pool, place.tenant, model)
        try:
            return _first_that_fits(found, make, check)
        except VidgenError as error:
            raise problem_of(error, planning=True) from None


def _first_that_fits(
    found: list[Candidate],
    make: Callable[[DeviceProfile], _Made],
    check: Callable[[_Made], None],
) -> _Made:
    refusal: DoesNotFit | None = None
    for candidate in found:
        made = make(candidate.profile)
        try:
            if candidate.live:
                check(made)
        except DoesNotFit as error:
            refusal = error
            continue
        return made
    assert refusal is not None
    raise refusal


def _inputs(request: VideoRequest, facts: Mapping[str, Facts]) -> Inputs:
    """Return black stand-ins of the sizes of what the request names, which take no memory."""
    video, rate, mask = None, None, None
    if request.video is not None:
        found = facts[request.video]
        start, frames = 0, int(found["frames"])
        if request.prefix_frames is not None:
            if request.prefix_frames > frames:
                raise Problem(
                    "unprocessable",
                    f"prefix_frames={request.prefix_frames} is more than the video has "
                    f"({frames}); give at most {frames}.",
                    param="prefix_frames",
                )
            start = frames - request.prefix_frames
        size = int(found["width"]), int(found["height"])
        video, rate = VideoFile(request.video, start, frames, *size), Fraction(found["fps"])
        if request.mask is not None:
            over = facts[request.mask]
            mask = VideoFile(request.mask, 0, len(video), int(over["width"]), int(over["height"]))
    return Inputs(
        image=stand_in(request.image, facts),
        last_image=stand_in(request.last_image, facts),
        video=video,
        mask=mask,
        references=tuple(
            picture
            for name in request.reference_images
            if (picture := stand_in(name, facts)) is not None
        ),
        video_fps=rate,
    )


def stand_in(name: str | None, facts: Mapping[str, Facts]) -> Any:
    """Return a black picture (rows, columns, 3) of a reference's size, None without one."""
    if name is None:
        return None
    found = facts[name]
    return np.broadcast_to(np.float32(0), (int(found["height"]), int(found["width"]), 3))


def _planned(request: VideoRequest, made: Plan, factor: float) -> Planned:
    seed = made.seeds[0]
    cost = made.estimate
    decided = shape_of(made) | {
        "num_frames": made.num_frames,
        "seconds": round(float(made.seconds), 6),
        "seed": seed,
        "task": made.task,
        "fidelity": made.fidelity,
        "prompt_tokens": str(made.prompt_tokens),
        "adjustments": [item.as_dict() for item in made.adjustments],
        "warnings": list(made.notes),
        "estimate": estimate_of(cost.seconds["total"], cost.disk_bytes, made, factor),
        "clips": [{"index": 0, "place": 0, "start": 0, "stop": made.num_frames, "seed": seed}],
    }
    return Planned(
        kind="clip",
        payload={"request": {**request.given(), "seed": seed}},
        text=_words(request.prompt),
        model=request.model,
        loras=tuple(item.path for item in request.loras),
        clips=1,
        tokens=cost.tokens,
        cost_seconds=cost.seconds["total"].middle * factor,
        device_bytes=int(cost.device_bytes.low),
        disk_bytes=int(cost.disk_bytes.high),
        decided=decided,
    )


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def shape_of(made: Plan) -> dict[str, Any]:
    """Return what a plan decides for every clip alike."""
    return {
        "width": made.size.export_width,
        "height": made.size.export_height,
        "fps": str(made.fps),
        "steps": made.steps,
        "num_inference_steps": made.num_inference_steps,
        "guidance_scale": made.guidance_scale,
        "attention": made.attention.name,
        "attention_backend": made.attention.backend,
        "device": made.device.name,
        "dtype": made.dtype,
        "format": made.request.format,
    }


def estimate_of(seconds: Interval, disk: Interval, largest: Plan, factor: float) -> dict[str, Any]:
    """Return the predicted cost as intervals, seconds corrected by what was measured."""
    cost = largest.estimate
    return {
        "seconds": {"low": seconds.low * factor, "high": seconds.high * factor},
        "stages": {
            name: {"low": item.low * factor, "high": item.high * factor}
            for name, item in cost.seconds.items()
        },
        "device_bytes": {"low": cost.device_bytes.low, "high": cost.device_bytes.high},
        "disk_bytes": {"low": disk.low, "high": disk.high},
        "tokens": cost.tokens,
        "notes": list(cost.notes),
    }
