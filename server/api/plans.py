"""Plans: planning a request, quicker where one like it was planned before.

Two requests are alike when they differ only in prompt and seed; what such a plan costs is the same.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from vidgen.device import DeviceProfile
from vidgen.inputs import Inputs
from vidgen.models import Model
from vidgen.plan import Plan, plan
from vidgen.prompts import count_tokens, too_long
from vidgen.request import VideoRequest

KEPT = 256

Key = tuple[str, DeviceProfile, str]


class Plans:
    """The plans of the last requests."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def plan(
        self,
        request: VideoRequest,
        device: DeviceProfile,
        model: Model,
        facts: str,
        inputs: Callable[[], Inputs],
    ) -> Plan:
        """Return what `vidgen.plan.plan` does.

        facts   of the inputs, as text that differs where they do
        Raises  BadRequest, Unsupported or NotFound
        """
        key = request.model_dump_json(exclude={"prompt", "seed"}), device, facts
        count = count_tokens(request.prompt, model)
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
        plain = too_long("prompt", count, model.family) is None
        if found is not None and plain:
            seed = secrets.randbits(31) if request.seed is None else request.seed
            return replace(found, request=request, prompt_tokens=count, seeds=(seed,))
        made = plan(request, device, inputs(), model)
        if plain and request.n == 1:
            with self._lock:
                self._known[key] = made
                while len(self._known) > KEPT:
                    self._known.popitem(last=False)
        return made
