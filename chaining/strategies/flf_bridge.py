"""flf_bridge: a clip between two finished ones, from the last frame of one to the first of the
other.
"""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.strategies.base import Float, Given, Seen


class FlfBridge:
    """Its first and last frames are those of its neighbours and are dropped.

    The layout makes room for it, because its neighbours' places depend on it.
    """

    name: ClassVar[str] = "flf_bridge"
    needs: frozenset[Capability] = frozenset({Capability.LAST_FRAME})
    reads: frozenset[str] = frozenset({"bridge_seconds", "through"})
    window = 1
    colours = True

    def tail(self, plan: ClipPlan) -> int:
        """It is given pictures only."""
        del plan
        return 0

    def pick(self, frames_frwc: Float) -> int:
        """Nothing continues from it."""
        return len(frames_frwc) - 1

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give both frames; the first one is rendered again by the clip."""
        del plan
        assert seen.start_rwc is not None
        return Given(
            image_rwc=seen.start_rwc,
            last_image_rwc=seen.end_rwc,
            twins_frwc=seen.start_rwc[None],
        )
