"""Where decoded frames go: a list, or a sink that is opened with the recipe; it writes no files."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from vidgen.clip import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Sink(Protocol):
    """Takes frames as they are decoded, e.g. a VideoWriter."""

    def write(self, frames: "NDArray[np.float32]") -> None:
        """Take the next frames (f, rows, columns, 3) in 0..1."""

    def abort(self) -> None:
        """Throw away what was written: the decode begins again, in tiles."""


# Opens a sink for the recipe, which is complete but for the decode's own seconds.
OpenSink = Callable[[dict[str, Any]], Sink]

# What a later decode of saved latents does not measure anew.
_OF_DENOISE = (
    "forwards", "attention_backend", "attention_reason", "density", "cache_hits", "loras"
)  # fmt: skip


class Output:
    """Where decoded frames go, and the recipe that goes with them."""

    def __init__(self, recipe: dict[str, Any], trace: Trace, open_sink: OpenSink | None) -> None:
        self.frames: list[NDArray[np.float32]] = []
        self._recipe = recipe
        self._trace = trace
        self._known = len(trace.adjustments)
        self._open_sink = open_sink
        self._sink: Sink | None = None

    def recipe(self) -> dict[str, Any]:
        """Return the recipe with what the decode has added to trace and adjustments."""
        before = self._recipe.get("trace", {})
        now = self._trace.as_dict()
        new = [item.as_dict() for item in self._trace.adjustments[self._known :]]
        return {
            **self._recipe,
            "adjustments": [*self._recipe["adjustments"], *new],
            "trace": {
                **now,
                **{key: before[key] for key in _OF_DENOISE if key in before},
                "seconds": {**before.get("seconds", {}), **now["seconds"]},
                "peak_bytes": {**before.get("peak_bytes", {}), **now["peak_bytes"]},
            },
        }

    def write(self, frames: "NDArray[np.float32]") -> None:
        """Take the next frames."""
        if self._open_sink is None:
            self.frames.append(frames)
            return
        if self._sink is None:
            self._sink = self._open_sink(self.recipe())
        self._sink.write(frames)

    def restart(self) -> None:
        """Throw away the frames so far; the next ones begin the clip anew."""
        self.frames.clear()
        if self._sink is not None:
            self._sink.abort()
            self._sink = None

    def kept(self) -> "NDArray[np.float32] | None":
        """Return the frames, or None if they went to a sink."""
        import numpy as np

        return np.concatenate(self.frames) if self._open_sink is None else None
