"""What the server's commands say: what others wrote is shown so that it steers no terminal."""

from collections.abc import Sequence

from vidgen.cli import report

_UNSEEN = (
    *range(0x20), *range(0x7F, 0xA0),  # C0, DEL, C1
    0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A),  # writing direction
    0x2028, 0x2029,  # line separators
)  # fmt: skip
_SHOWN = {code: ascii(chr(code))[1:-1] for code in _UNSEEN}
_OURS = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\n\t"}


def visible(text: str) -> str:
    r"""Return a text on one line, its control characters written out: \x1b, \n, \u202e."""
    return text.translate(_SHOWN)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align cells in columns."""
    return report.table(head, [[visible(cell) for cell in row] for row in rows])


def pairs(items: Sequence[tuple[str, str]]) -> str:
    """Align names and values in two columns."""
    return report.pairs([(visible(name), visible(value)) for name, value in items])


class Reporter(report.Reporter):
    """Speaks for one command; of what people read, only lines and tabs are taken as they are."""

    def say(self, text: str = "") -> None:
        """Print a result for people."""
        super().say(text.translate(_OURS))

    def warn(self, text: str, kind: str = "note") -> None:
        """Tell something beside the result, with a word for what it is."""
        super().warn(text if self.json else visible(text), kind)

    def stage(self, text: str) -> None:
        """Show a stage that has no steps, e.g. queued."""
        super().stage(text if self.json else visible(text))
