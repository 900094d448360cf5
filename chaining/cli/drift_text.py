"""What the drift commands print for people: the verdict first, then a table."""

import io
import math
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from chaining.codec_share import CodecShare
from chaining.drift.cases import Check
from chaining.drift.compare import Comparison
from chaining.drift.thresholds import SLOPES
from chaining.drift_report import words
from chaining.drift_report.measured import Measured
from chaining.drift_report.rows import table_rows

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS: Final = {"pass": "green", "warn": "yellow", "fail": "red", "inconclusive": "cyan"}
_MOST_REASONS: Final = 8
_NARROWEST: Final = 120  # where no terminal says how wide it is, nothing is folded


def measured_text(measured: Measured, codec: CodecShare | None) -> str:
    """Write a measurement."""
    drift = measured.drift
    verdict = drift.verdict
    parts: list[Any] = [_headline(measured.name, verdict.overall)]
    parts += [f"  {text}" for text in words.movements(drift)]
    parts += [f"  {text}" for text in words.forecasts(drift)]
    rows, group = [], ""
    for row in table_rows(drift):
        shown = row.group if row.group != group else ""
        group = row.group
        word = _word(row.outcome)
        rows.append((shown, row.what, row.reading, row.interval, row.limits, word))
    parts += ["", _table(("", "", "reading", "95 %", "good / bad", ""), rows)]
    if codec is not None:
        parts += [_codec(codec)]
    parts += _reasons(verdict.reasons)
    parts += [f"[dim]note: {_plain(note)}[/dim]" for note in measured.notes]
    return _render(parts)


def compared_text(first: str, second: str, found: Comparison) -> str:
    """Write a paired reading: how the second run differs from the first."""
    rows = []
    for name, limit in SLOPES.items():
        if name not in found.levels:
            continue
        slope = found.slopes.get(name)
        change, ends, outcome = "", "", ""
        if slope is not None:
            change, ends = words.amount(name, slope.value), words.interval(name, slope)
            outcome = words.outcome(name, slope)
        level = words.amount(name, found.levels[name].value)
        rows.append((limit.group, limit.words, level, change, ends, _word(outcome)))
    head = ("", "", "on average", "more per clip", "95 %", "")
    title = f"[bold]{_plain(second)}[/bold] against [bold]{_plain(first)}[/bold]"
    said = words.COMPARED[found.verdict.overall]
    parts: list[Any] = [f"{_word(found.verdict.overall)}  {title}  {said}", "", _table(head, rows)]
    return _render([*parts, *_reasons(found.verdict.reasons)])


def checks_text(checks: Sequence[Check]) -> str:
    """Write the outcome of the self-test."""
    bad = [check for check in checks if not check.ok]
    outcome = "fail" if bad else "pass"
    told = f"{len(checks) - len(bad)} of {len(checks)} readings are as they must be"
    rows = [
        (check.name, f"{check.reading:.5g}", f"{check.expected:.5g}", f"± {check.tolerance:.2g}",
         _word("pass" if check.ok else "fail"))
        for check in checks
    ]  # fmt: skip
    head = ("", "reading", "expected", "", "")
    return _render([f"{_word(outcome)}  {told}", "", _table(head, rows, numbers=(1, 2, 3))])


def finite(data: Any) -> Any:
    """Return JSON-ready data with null for what is no number."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _headline(name: str, outcome: str) -> str:
    return f"{_word(outcome)}  [bold]{_plain(name)}[/bold]  {words.HEADLINES[outcome]}"


def _word(outcome: str) -> str:
    if outcome == "":
        return "[dim]not counted[/dim]"
    return f"[bold {_COLOURS[outcome]}]{words.MARKS[outcome]} {outcome}[/]"


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _reasons(reasons: Sequence[str]) -> list[str]:
    found = [f"  {_plain(reason)}" for reason in reasons[:_MOST_REASONS]]
    more = len(reasons) - len(found)
    return [*found, f"  and {more} more (--json, --html)"] if more > 0 else found


def _codec(share: CodecShare) -> "Table | str":
    if not share.per_clip:
        return "The codec's part of a slope cannot be told from fewer than 3 clips.\n"
    rows = [
        (SLOPES[name].words, words.amount(name, reading), words.amount(name, alone))
        for name, (reading, alone) in share.per_clip.items()
    ]
    return _table((f"codec's share ({share.of})", "reading", "codec alone"), rows, numbers=(1, 2))


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = (2, 3, 4)
) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for place, name in enumerate(head):
        right = place in numbers
        made.add_column(_plain(name), justify="right" if right else "left", no_wrap=right)
    for row in rows:
        made.add_row(*row)
    return made


def _render(parts: Sequence[Any]) -> str:
    """Draw for the terminal; elsewhere without colours."""
    from rich.console import Console

    file = io.StringIO()
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else _NARROWEST
    console = Console(file=file, force_terminal=terminal, width=width, highlight=False)
    for part in parts:
        console.print(part)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).rstrip()
