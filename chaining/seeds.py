"""Seeds of clips: drawn from the story's seed by a hash, so that a resumed chain has the same."""

import hashlib


def clip_seed(seed: int, label: str) -> int:
    """Return the seed of one clip, 0..2^63-1.

    seed   the story's
    label  names the clip within the story, e.g. "clip 3"
    """
    digest = hashlib.sha256(f"vidgen chain {seed} {label}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
