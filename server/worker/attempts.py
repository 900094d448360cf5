"""What another attempt at a clip changes of its request."""

from collections.abc import Mapping
from typing import Any

from server.worker.session import Attempt
from vidgen.device import DeviceProfile
from vidgen.plan import Plan
from vidgen.request import fields, group_of

_LESS = {"none": "model", "model": "group"}


def attempt_fields(
    request: Mapping[str, Any], attempt: Attempt, offload: str, device: DeviceProfile
) -> dict[str, Any]:
    """Return the fields of a request as an attempt makes it, but for the seed.

    offload  that was planned
    """
    data = dict(request)
    if attempt.dense:
        known = fields()
        data = {name: value for name, value in data.items() if group_of(known[name]) != "attention"}
        data["attention"] = "dense"
    if attempt.lean:
        data["vae_tiling"] = "on"
        if device.kind == "cuda":
            data["offload"] = _LESS.get(offload, offload)
    return data


def can_be_leaner(plan: Plan) -> bool:
    """Whether a run can be made with less memory than planned."""
    if plan.device.kind == "cuda" and plan.offload in _LESS:
        return True
    return plan.vae_tiling == "whole"


def stage_seconds(plan: Plan) -> dict[str, float]:
    """Return the predicted seconds of a clip by stage, the middle of each interval."""
    found = plan.estimate.seconds
    return {name: item.middle for name, item in found.items() if name != "total"}
