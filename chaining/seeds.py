"""Seeds of clips: drawn from the story's seed by a hash, so that a resumed chain has the same."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any


def clip_seed(seed: int, label: str) -> int:
    """Return the seed of one clip, 0..2^63-1.

    seed   the story's
    label  names the clip within the story, e.g. "clip 3"
    """
    digest = hashlib.sha256(f"vidgen chain {seed} {label}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def with_seed(shots: Sequence[Mapping[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Return the data of shots that go on with a chain, with a seed where they have none.

    seed  the first one's; the others' follow from it. The chain keeps its own.
    """
    return [
        {"seed": seed if number == 0 else clip_seed(seed, f"shot {number}"), **shot}
        for number, shot in enumerate(shots)
    ]
