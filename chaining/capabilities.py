"""What a model can be given to start from, and which strategies that allows."""

from collections.abc import Collection
from enum import StrEnum

from vidgen.errors import Unsupported
from vidgen.families import Family


class Capability(StrEnum):
    """One thing that a clip can be conditioned on; the value is said to people."""

    TEXT = "a prompt alone"
    FIRST_FRAME = "a first frame"
    LAST_FRAME = "a first and a last frame"
    END_FRAME = "a last frame alone"
    MULTI_FRAME = "several first frames"
    PER_TOKEN_T = "first frames with a noise level of their own"
    RENOISE = "first frames that are noised anew at each step"
    PREFIX_LATENTS = "first frames as latents"


def capabilities_of(family: Family) -> frozenset[Capability]:
    """Return what the row of a model family says that it can be given."""
    by_task = {
        "t2v": Capability.TEXT,
        "i2v": Capability.FIRST_FRAME,
        "flf2v": Capability.LAST_FRAME,
        "last": Capability.END_FRAME,
        "prefix": Capability.MULTI_FRAME,
    }
    found = {by_task[task] for task in family.tasks if task in by_task}
    if family.token_times:
        found |= {Capability.PER_TOKEN_T, Capability.RENOISE, Capability.PREFIX_LATENTS}
    return frozenset(found)


def missing(needs: Collection[Capability], able: Collection[Capability]) -> tuple[Capability, ...]:
    """Return what is needed and not there, in the order of declaration."""
    return tuple(item for item in Capability if item in needs and item not in able)


def refuse_missing(
    what: str,
    needs: Collection[Capability],
    able: Collection[Capability],
    usable: Collection[str],
    field: str,
) -> None:
    """Raise Unsupported when a model lacks what something needs.

    usable  the names that could be asked for instead
    """
    lacking = missing(needs, able)
    if lacking:
        raise Unsupported(
            f"{what} needs a model that takes {' and '.join(lacking)}, and this one does not; "
            f"usable here: {', '.join(usable) or 'none'}.",
            field=field,
        )
