"""last_latent: the last latent frames of a clip go on undecoded.

Experimental: no model known here was trained to continue such latents. It saves the VAE round trip,
which is the smaller part of what drifts.
"""

from typing import ClassVar

from chaining.capabilities import Capability
from chaining.clip_plan import ClipPlan
from chaining.controls import Handover
from chaining.layout import Layout
from chaining.strategies.base import Float, Given, Seen, Sharing

CONTEXT = 2  # latent frames that are decoded before a clip's, so that it does not look like a start


class LastLatent:
    """The last latent frames are pinned at the new clip's start; what they decode to is dropped.

    The first of them is decoded after the latents before it, as it was in its own clip: then only
    the last of its frames comes out, so m latent frames stand for step * (m - 1) + 1 frames.
    """

    name: ClassVar[str] = "last_latent"
    needs: frozenset[Capability] = frozenset({Capability.PREFIX_LATENTS})
    reads: frozenset[str] = frozenset({"latents", "through"})
    window = 1
    colours = False

    def __init__(self, handover: Handover, step: int) -> None:
        self._latents = handover.latents
        self._sharing = Sharing(1 + step * (handover.latents - 1))

    def plan(self, shot: int, frames: int, layout: Layout) -> None:
        """Lay down the clips of a shot; see Strategy.plan."""
        self._sharing.plan(self.name, shot, frames, layout)

    def tail(self, plan: ClipPlan) -> int:
        """The frames that the latents stand for."""
        return plan.overlap

    def pick(self, frames_frwc: Float) -> int:
        """The last frame: latents end where the clip ends."""
        return len(frames_frwc) - 1

    def condition(self, seen: Seen, plan: ClipPlan) -> Given:
        """Give the latents, and the frames that they stand for as twins."""
        if plan.previous is None:
            return Given(image_rwc=seen.start_rwc, last_image_rwc=seen.end_rwc)
        assert seen.latents_ctrw is not None
        before = seen.latents_ctrw.shape[1] - self._latents
        return Given(
            last_image_rwc=seen.end_rwc,
            prefix_frwc=seen.tail_frwc,
            prefix_latents_ctrw=seen.latents_ctrw[:, before:],
            context_ctrw=seen.latents_ctrw[:, max(0, before - CONTEXT) : before],
            twins_frwc=seen.tail_frwc,
        )
