"""What the program says: results on stdout, the rest on stderr; or JSON lines on stdout only."""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.cli.line import Line, PlainLine, TerminalLine
from vidgen.cli.options import Common
from vidgen.events import Progress


class Reporter:
    """Speaks for one command, in one of three ways: for people, as JSON lines, or errors only."""

    def __init__(self, common: Common, *, here: bool = True) -> None:
        """Begin to speak. here: the work is done by this process, so its memory is of interest."""
        self._here = here
        self.json = common.json
        self.quiet = common.quiet
        self._line: Line | None = None
        self._pace = Pace()
        self.preview = ""

    @property
    def for_people(self) -> bool:
        """Whether a person reads along."""
        return not self.json and not self.quiet

    def say(self, text: str = "") -> None:
        """Print a result for people."""
        if self.for_people:
            print(text)

    def warn(self, text: str, kind: str = "note") -> None:
        """Tell something beside the result, with a word for what it is."""
        if self.json:
            self.emit(kind, text=text)
        elif not self.quiet:
            print(f"{kind:<8}  {text}", file=sys.stderr, flush=True)

    def emit(self, event: str, **data: Any) -> None:
        """Print one JSON line, when that is asked for."""
        if self.json:
            line = {"event": event, **data}
            print(json.dumps(line, default=str), flush=True)

    def answer(self, data: dict[str, Any], text: str) -> None:
        """Print the one result of a command: data for programs, text for people."""
        if self.json:
            print(json.dumps(data, default=str), flush=True)
        else:
            self.say(text)

    def adjustments(self, items: Iterable[Adjustment]) -> None:
        """Tell people what differs from what they asked."""
        if self.for_people:
            for item in items:
                self.warn(str(item), "adjusted")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show progress while the block runs: a live line on a terminal, else plain lines."""
        if not self.for_people:
            yield
            return
        self._line = TerminalLine() if sys.stderr.isatty() else PlainLine()
        try:
            yield
        finally:
            self._line.close()
            self._line = None

    def progress(self, event: Progress, clip: int, clips: int) -> None:
        """Show one step; clip is counted from 1."""
        rate = self._pace.rate(event)
        self.emit(
            "progress",
            clip=clip,
            clips=clips,
            stage=event.stage,
            done=event.done,
            total=event.total,
            elapsed=round(event.elapsed, 3),
            eta=round(event.eta, 3),
            rate=None if rate is None else round(rate, 3),
            density=None if event.density is None else round(event.density, 4),
            attention_backend=event.attention_backend,
            attention_reason=event.attention_reason,
        )
        if self._line is not None:
            parts = [f"clip {clip}/{clips}"] if clips > 1 else []
            parts.append(f"{event.stage} {event.done}/{event.total}")
            if rate is not None:
                parts.append(f"{rate:.2f} it/s" if rate >= 1 else f"{1 / rate:.1f} s/it")
            parts.append(f"ETA {clock(event.eta)}")
            if self._here:
                parts.append(memory_text())
            if self.preview:
                parts.append(self.preview)
            if event.density is not None:  # last, where a narrow terminal cuts it off
                parts.append(attention_text(event))
            last = event.done == event.total
            self._line.show(" · ".join(parts), event.stage, last=last)

    def stage(self, text: str) -> None:
        """Show a stage that has no steps, e.g. loading."""
        self.emit("stage", text=text)
        if self._line is not None:
            self._line.show(text, text, last=False)


class Pace:
    """Steps per second of the stage that is running."""

    def __init__(self) -> None:
        self._stage = ""
        self._first = (0.0, 0)

    def rate(self, event: Progress) -> float | None:
        """Return the rate since the stage's first step, None before a second one."""
        now = time.perf_counter()
        if event.stage != self._stage or event.done <= self._first[1]:
            self._stage, self._first = event.stage, (now, event.done)
            return None
        began, done = self._first
        return (event.done - done) / max(now - began, 1e-9)


def clock(seconds: float) -> str:
    """Write a duration: 0:07, 12:30, 1:02:03."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
    return f"{rest // 60}:{rest % 60:02d}"


def memory_text() -> str:
    """Say the memory in use now and at most: of the GPU when one is used, else of this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        return f"VRAM {now / 2**30:.1f} GiB (peak {peak / 2**30:.1f})"
    import resource

    import psutil

    now = psutil.Process().memory_info().rss
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return f"RAM {now / 2**30:.1f} GiB (peak {peak / 2**30:.1f})"


def attention_text(event: Progress) -> str:
    """Say how much attention has read so far, by whom and why."""
    return (
        f"attention {100 * (event.density or 0):.1f} % by {event.attention_backend} "
        f"({event.attention_reason})"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align cells in columns; the last column is as wide as it needs to be."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[-1]]).rstrip()
        for line in lines
    )


def pairs(items: Sequence[tuple[str, str]]) -> str:
    """Align names and values in two columns."""
    width = max((len(name) for name, _ in items), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}".rstrip() for name, value in items)
