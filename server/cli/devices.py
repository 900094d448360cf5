"""Which devices the workers of one `vidgen serve` take."""

import itertools
import os
import re

from vidgen.device import this_gpu, visible_gpu
from vidgen.errors import BadRequest, Unsupported

_ASKED = re.compile(r"(auto|cpu|cuda)(?::(\d{1,4}))?")
MAX_CPU_WORKERS = 64


def worker_devices(asked: str, number: int | None) -> tuple[str, ...]:
    """Return the device of each worker.

    asked   auto, cpu or cuda; cuda:<n> and cpu:<n> are one device
    number  of workers; None: one for each visible GPU, or one CPU worker
    Raises  BadRequest, Unsupported
    """
    match = _ASKED.fullmatch(asked)
    if match is None or asked.startswith("auto:"):
        raise BadRequest(
            f"device={asked!r} is none of auto, cpu, cuda and cuda:<n>.", field="device"
        )
    if number is not None and not 0 <= number <= MAX_CPU_WORKERS:
        raise BadRequest(f"workers={number} must be 0 to {MAX_CPU_WORKERS}.", field="workers")
    if number == 0:
        return ()
    if match[2] is not None:
        if number not in (None, 1):
            raise BadRequest(
                f"workers={number} do not share {asked}; leave one of them out.", field="workers"
            )
        return (asked,)
    gpus = 0 if match[1] == "cpu" else count_gpus()
    if gpus == 0 and match[1] != "cuda":
        return tuple(f"cpu:{index}" for index in range(number or 1))
    if gpus == 0:
        raise Unsupported(
            "device=cuda is not here: there is no NVIDIA GPU that this torch can use; take cpu, or "
            "see `vidgen doctor`.",
            field="device",
        )
    if number is not None and number > gpus:
        raise BadRequest(
            f"workers={number} is more than the {gpus} visible GPUs; a GPU has one worker.",
            field="workers",
        )
    return tuple(f"cuda:{index}" for index in range(number or gpus))


def count_gpus() -> int:
    """Return how many GPUs this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    for index in itertools.count():
        name = visible_gpu(index, visible)
        if name is None or this_gpu(name) is None:
            return index
    raise AssertionError("count never ends")
