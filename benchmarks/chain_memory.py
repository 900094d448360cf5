"""What a long chain needs in memory beside its model: `python -m benchmarks.chain_memory`.

toyworld   a chain of the bundled model; its own need is what one of its clips takes alone
full-size  832x480 in clips of 81 frames, from a maker that computes nothing: it returns the frame
           that it is given, moved sideways, so all that is seen is the chain's own
The process's resident memory is sampled while each clip is made, and while the video is assembled.
"""

# f frames  r rows  w columns  c channels
import argparse
import gc
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.report import report, write_report
from chaining.capabilities import Capability
from chaining.chain import Chain
from chaining.engine_maker import EngineMaker
from chaining.events import ChainEvent, ClipFinished
from chaining.lengths import Lengths
from chaining.maker import Ask, ClipMaker, Float, Made
from chaining.story import Story, parse_story
from vidgen.device import cpu_profile
from vidgen.engine import Engine
from vidgen.events import Callback, CancelToken
from vidgen.models import resolve

MIB = 2**20
EVERY = 0.02  # seconds between two samples


class Peak:
    """The most resident memory, in bytes, since it was last asked for."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._most = self._now()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def take(self) -> int:
        """Return the peak, and begin anew."""
        found, self._most = self._most, self._now()
        return found

    def _now(self) -> int:
        return int(self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._end.wait(EVERY):
            self._most = max(self._most, self._now())


class StillMaker:
    """Clips of the frame that each is given, one column further in every frame."""

    capabilities = frozenset({Capability.TEXT, Capability.FIRST_FRAME})
    lengths = Lengths(4, 81, 81)
    fps = Fraction(16)
    size = export_size = (832, 480)
    identity: dict[str, Any] = {"model": "still"}  # noqa: RUF012 - never changed

    def picture(self, path: str) -> Float:
        """Refuse: its stories name no pictures."""
        raise NotImplementedError(path)

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        """Return one array of frames, as an engine does."""
        del on, cancel
        width, height = self.size
        frame_rwc = ask.image_rwc
        if frame_rwc is None:
            rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
            waves = [0.5 + 0.3 * np.sin(rows / (9 + i) + columns / (14 - i)) for i in range(3)]
            frame_rwc = np.stack(waves, axis=-1)
        frames_frwc = np.empty((ask.num_frames, height, width, 3), np.float32)
        for index, out_rwc in enumerate(frames_frwc):
            out_rwc[:] = np.roll(frame_rwc, index, axis=1)
        return Made(frames_frwc)


def main(argv: Sequence[str] | None = None) -> None:
    """Run both parts, or one, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chain_memory", description=__doc__)
    parser.add_argument("--parts", nargs="*", choices=tuple(_PARTS), default=list(_PARTS))
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--out", type=Path, help="JSON to write")
    args = parser.parse_args(argv)
    found = {}
    for name in args.parts:
        found[name] = _PARTS[name](args.seconds)
        print(f"{name}: {_text(found[name])}", flush=True)
    if args.out is not None:
        command = "python -m benchmarks.chain_memory " + " ".join(argv or sys.argv[1:])
        write_report(args.out, report(command, parts=found))


def _toyworld(seconds: float) -> dict[str, Any]:
    engine = Engine.load(resolve("toyworld"))
    request = {"model": "toyworld", "num_frames": 33, "num_inference_steps": 4}
    story = _story("a big red ball moves slowly left over the sand", seconds, request)
    return _measure(story, EngineMaker(story, cpu_profile(1, 2**34), engine), 33)


def _full_size(seconds: float) -> dict[str, Any]:
    return _measure(_story("nothing", seconds, {}), StillMaker(), 81)


_PARTS: dict[str, Callable[[float], dict[str, Any]]] = {
    "toyworld": _toyworld,
    "full-size": _full_size,
}


def _story(prompt: str, seconds: float, request: dict[str, Any]) -> Story:
    shots = [{"prompt": prompt, "seconds": seconds}]
    return parse_story({"shots": shots, "seed": 1, "request": request})


def _measure(story: Story, maker: ClipMaker, num_frames: int) -> dict[str, Any]:
    """Make one clip alone, then the chain; return resident MiB."""
    gc.collect()
    with Peak() as peak, tempfile.TemporaryDirectory(prefix="vidgen-chain-") as folder:
        idle = peak.take()
        made = maker.make(Ask(story.shots[0].prompt, 1, num_frames))
        clip_bytes = made.frames_frwc.nbytes
        own = peak.take()
        del made
        gc.collect()
        peaks: list[int] = []

        def note(event: ChainEvent) -> None:
            if isinstance(event, ClipFinished):
                peaks.append(peak.take())
                print(f"  clip {event.clip + 1}/{event.clips}", file=sys.stderr, flush=True)

        result = Chain(story, maker, Path(folder, "chain")).run(Path(folder, "long.mp4"), on=note)
        assembling = peak.take()
    # The first clips fill caches and the allocator; what grows with length shows after them.
    settled = np.array(peaks[len(peaks) // 4 :], float) / MIB
    slope = float(np.polyfit(np.arange(len(settled)), settled, 1)[0])
    return {
        "clips": len(peaks),
        "frames": result.num_frames,
        "idle": round(idle / MIB, 1),
        "frames of one clip": round(clip_bytes / MIB, 1),
        "one clip alone": round(own / MIB, 1),
        "chain": round(max(*peaks, assembling) / MIB, 1),
        "chain over one clip alone": round((max(*peaks, assembling) - own) / MIB, 1),
        "while assembling": round(assembling / MIB, 1),
        "growth per clip": round(slope, 3),
        "peaks": [round(value / MIB, 1) for value in peaks],
    }


def _text(found: dict[str, Any]) -> str:
    shown = {name: value for name, value in found.items() if name != "peaks"}
    return ", ".join(f"{name} {value}" for name, value in shown.items()) + " (MiB, resident)"


if __name__ == "__main__":
    main()
