"""The ways in which clips hand over to each other, one file each, and the table of them."""

from chaining.controls import Handover
from chaining.strategies.base import Given, Handing, Seen, Strategy
from chaining.strategies.flf_bridge import FlfBridge
from chaining.strategies.keyframes import Keyframes
from chaining.strategies.last_frame import LastFrame
from chaining.strategies.last_latent import LastLatent
from chaining.strategies.overlap import Overlap
from chaining.strategies.single import Single

__all__ = ["Given", "Handing", "Seen", "Strategy", "handing", "strategies"]


def strategies(handover: Handover, step: int) -> dict[str, Strategy]:
    """Return every strategy that a shot can have, by name.

    step  frames per latent frame of the model
    """
    found: tuple[Strategy, ...] = (
        Single(),
        LastFrame(handover),
        LastLatent(handover, step),
        Overlap(handover),
        Keyframes(),
    )
    return {item.name: item for item in found}


def handing(name: str, handover: Handover, step: int) -> Handing:
    """Return what made a clip's plan, by the name in it."""
    if name == FlfBridge.name:
        return FlfBridge()
    return strategies(handover, step)[name]
