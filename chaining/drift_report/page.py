"""The page: one HTML file that stands alone, without a script and without a request."""

import base64
from collections.abc import Sequence
from html import escape

from chaining.codec_share import CodecShare
from chaining.drift.compare import Comparison
from chaining.drift.thresholds import SLOPES
from chaining.drift_report import words
from chaining.drift_report.measured import Measured
from chaining.drift_report.page_look import LOOK
from chaining.drift_report.rows import Row, table_rows

_SHOWN_REASONS = 6


def page(
    runs: Sequence[Measured],
    charts: Sequence[tuple[str, str]],
    pictures: Sequence[tuple[str, bytes]],
    *,
    comparison: Comparison | None = None,
    codec: CodecShare | None = None,
) -> str:
    """Return the page.

    runs      one, or two that are laid over each other
    charts    heading and SVG of each; pictures heading and JPEG of each
    """
    title = "Drift: " + " and ".join(run.name for run in runs)
    parts = [f"<h1>{escape(title)}</h1>"]
    for number, run in enumerate(runs):
        parts.append(_verdict(run, "one two".split()[number] if len(runs) > 1 else ""))
    if comparison is not None:
        parts.append(_comparison(comparison, runs))
    for run in runs:
        heading = "Readings" if len(runs) == 1 else f"Readings of {run.name}"
        parts += [f"<h2>{escape(heading)}</h2>", _readings(run)]
    if codec is not None:
        parts.append(_codec(codec))
    parts += [f"<h2>{escape(heading)}</h2>{svg}" for heading, svg in charts]
    parts += [_picture(heading, data) for heading, data in pictures]
    parts += [_details(run) for run in runs]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{LOOK}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _verdict(run: Measured, key: str) -> str:
    """Say first what a reader came for: how it is, why, and where it leads."""
    verdict = run.drift.verdict
    name = f'<p><span class="key" style="background:var(--{key})"></span>{escape(run.name)}</p>'
    moves = "".join(f"<p>{escape(text)}</p>" for text in words.movements(run.drift))
    ends = " ".join(words.forecasts(run.drift))
    shown = verdict.reasons[:_SHOWN_REASONS]
    more = verdict.reasons[_SHOWN_REASONS:]
    return (
        f'<section class="card {verdict.overall}">{name if key else ""}'
        f"<p>{_word(verdict.overall)} {escape(words.HEADLINES[verdict.overall])}</p>{moves}"
        f"<p><b>If it goes on like this:</b> {escape(ends)}</p>"
        f"{_list(shown)}{_folded(f'{len(more)} more reasons', _list(more)) if more else ''}"
        "</section>"
    )


def _word(outcome: str) -> str:
    text = f"{words.MARKS[outcome]} {outcome}"
    return f'<span class="word {outcome}">{escape(text)}</span>'


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>" if items else ""


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _readings(run: Measured) -> str:
    head = ("", "", "reading", "95 % interval", "good up to / bad beyond", "")
    rows = []
    for group, outcome in run.drift.verdict.by_group.items():
        members = [row for row in table_rows(run.drift) if row.group == group]
        for place, row in enumerate(members):
            cells = (f"<b>{group}</b><br>{_word(outcome)}",) if place == 0 else ("",)
            rows.append(_row(row, cells[0], first=place == 0))
    return f'<div class="wide"><table>{_head(head)}{"".join(rows)}</table></div>'


def _head(names: Sequence[str]) -> str:
    numbers = {
        "reading",
        "95 % interval",
        "good up to / bad beyond",
        "codec alone",
        "on average",
        "more per clip",
    }
    cells = (
        f'<th class="number">{name}</th>' if name in numbers else f"<th>{name}</th>"
        for name in names
    )
    return f"<tr>{''.join(cells)}</tr>"


def _row(row: Row, group: str, *, first: bool) -> str:
    numbers = "".join(
        f'<td class="number">{escape(text)}</td>'
        for text in (row.reading, row.interval, row.limits)
    )
    outcome = _word(row.outcome) if row.outcome else '<span class="faint">not counted</span>'
    mark = ' class="first"' if first else ""
    return f"<tr{mark}><td>{group}</td><td>{escape(row.what)}</td>{numbers}<td>{outcome}</td></tr>"


def _comparison(found: Comparison, runs: Sequence[Measured]) -> str:
    """Show the paired reading: the content cancels, so that its intervals are narrow."""
    one, two = (escape(run.name) for run in runs)
    rows = []
    for name, limit in SLOPES.items():
        if name not in found.levels:
            continue
        level, slope = found.levels[name], found.slopes.get(name)
        change = "" if slope is None else words.amount(name, slope.value)
        ends = "" if slope is None else words.interval(name, slope)
        outcome = "" if slope is None else _word(words.outcome(name, slope))
        rows.append(
            f'<tr><td>{limit.words}</td><td class="number">{words.amount(name, level.value)}</td>'
            f'<td class="number">{change}</td><td class="number">{ends}</td><td>{outcome}</td></tr>'
        )
    head = ("", "on average", "more per clip", "95 % interval", "")
    return (
        f"<h2>{two} against {one}, frame by frame</h2>"
        f"<p>{_word(found.verdict.overall)} {words.COMPARED[found.verdict.overall]}</p>"
        f'<div class="wide"><table>{_head(head)}{"".join(rows)}</table></div>'
    )


def _codec(share: CodecShare) -> str:
    rows = "".join(
        f'<tr><td>{SLOPES[name].words}, per clip</td>'
        f'<td class="number">{words.amount(name, reading)}</td>'
        f'<td class="number">{words.amount(name, alone)}</td></tr>'
        for name, (reading, alone) in share.per_clip.items()
    )  # fmt: skip
    table = f"<table>{_head(('', 'reading', 'codec alone'))}{rows}</table>"
    none = "<p>Fewer than 3 clips: the codec's part of a slope cannot be told.</p>"
    return f"<h2>The codec's share ({escape(share.of)})</h2>{table if rows else none}"


def _picture(heading: str, data: bytes) -> str:
    source = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    return f'<h2>{escape(heading)}</h2><img alt="{escape(heading)}" src="{source}">'


def _details(run: Measured) -> str:
    facts = words.facts(run.drift, run.notes)
    pairs = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    contrasts = "".join(
        f'<tr><td>{name}</td><td class="number">{found.start:.4f}</td>'
        f'<td class="number">{found.end:.4f}</td><td class="number">{found.signed:+.4f}</td>'
        f'<td class="number">{found.rating}</td></tr>'
        for name, found in run.drift.contrasts.items()
    )
    vde = "".join(
        f'<tr><td>{name}</td><td class="number">{found.linear:.3f}</td>'
        f'<td class="number">{found.log:.3f}</td></tr>'
        for name, found in run.drift.vde.items()
    )
    names = "".join(f'<th class="number">{text}</th>' for text in
                    ("first 15 %", "last 15 %", "difference", "rating, 10 best"))  # fmt: skip
    return (
        f"<h2>What was measured{f': {escape(run.name)}'}</h2><dl>{pairs}</dl>"
        + _folded(
            "Start against end (drift contrast)",
            f"<table><tr><th></th>{names}</tr>{contrasts}</table>",
        )
        + _folded(
            "VDE, for comparison with others only: it grows with the content",
            f'<table><tr><th></th><th class="number">linear</th><th class="number">log</th></tr>'
            f"{vde}</table>",
        )
    )
