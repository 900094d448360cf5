"""The line that shows progress: drawn over itself on a terminal, a new one at times elsewhere."""

import sys
import time
from typing import Protocol

PLAIN_SECONDS = 10.0


class Line(Protocol):
    """Shows the newest state of the work."""

    def show(self, text: str, stage: str, *, last: bool) -> None:
        """Show a state; last says that its stage is done."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class TerminalLine:
    """One line that is drawn over itself."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._text = Text
        self._live = Live(
            console=Console(stderr=True), auto_refresh=False, transient=True, redirect_stdout=False
        )
        self._live.start()

    def show(self, text: str, stage: str, *, last: bool) -> None:  # noqa: ARG002 - see Line
        """Draw the line anew."""
        line = self._text(text, no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)

    def close(self) -> None:
        """Wipe the line."""
        self._live.stop()


class PlainLine:
    """A line at the start and the end of each stage, and every ten seconds between."""

    def __init__(self) -> None:
        self._stage = ""
        self._shown = 0.0

    def show(self, text: str, stage: str, *, last: bool) -> None:
        """Print the line if it is time to."""
        now = time.monotonic()
        if stage == self._stage and not last and now - self._shown < PLAIN_SECONDS:
            return
        self._stage, self._shown = stage, now
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to put back."""
