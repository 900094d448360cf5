"""Tables for docs/ that are made from what benchmarks wrote into benchmarks/results/."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"

# Signal, and the factor by which its rates are shown.
_RATES = (("gain", 100), ("chroma", 100), ("hue", 1), ("cast", 1000), ("blur", 100))
_READ = ("colour", "shape", "motion", "background")


def newest(name: str) -> dict[str, Any]:
    """Return the content of the last dated file of this name.

    Raises  FileNotFoundError when there is none
    """
    dated = "[0-9]" * 4 + "-[0-9][0-9]-[0-9][0-9]-"
    found = sorted(RESULTS.glob(f"{dated}{name}.json"))
    if not found:
        raise FileNotFoundError(f"{RESULTS} holds no result called {name}")
    content: dict[str, Any] = json.loads(found[-1].read_text("utf-8"))
    return content


def source(name: str) -> str:
    """Say where a table's figures come from, in one line."""
    found = newest(name)
    return (
        f"{found['date']}, {found['machine']}, commit {found['commit']}: `{found['command']}`\n\n"
    )


def drift_table(name: str) -> str:
    """One row for each way of chaining: rates of drift and their 95 % intervals over stories."""
    head = ("way of chaining", "differs from", "in", *(_headed(*rate) for rate in _RATES),
            "shape in the last clip %", "verdicts", "fails at clip")  # fmt: skip
    rows = [
        (
            title,
            arm["against"] or "",
            arm["differs"],
            *(interval(arm["rates"][signal], factor) for signal, factor in _RATES),
            _shape(arm),
            _counted(arm["verdicts"], arm["verdicts by group"]),
            _failing(arm["fails at clip"]),
        )
        for title, arm in newest(name)["arms"].items()
    ]
    return source(name) + table(head, rows)


def drift_steps_table(name: str) -> str:
    """One row for each way of chaining: by how much the size of its rates is off its base's."""
    head = ("way of chaining", "beside", *(_headed(*rate) for rate in _RATES))
    rows = [
        (
            title,
            arm["against"],
            *(interval(arm["size of rates against"][signal], factor) for signal, factor in _RATES),
        )
        for title, arm in newest(name)["arms"].items()
        if "size of rates against" in arm
    ]
    return source(name) + table(head, rows)


def paired_drift_table(name: str) -> str:
    """One row for each arm: rates of drift beside the base's, frame by frame."""
    head = ("attention", *(_headed(*rate) for rate in _RATES), "shape in the last clip %",
            "verdicts")  # fmt: skip
    rows = [
        (
            title,
            *(interval(arm["paired rates"][signal], factor) for signal, factor in _RATES),
            _shape(arm),
            _counted(arm["verdicts"], arm["verdicts by group"]),
        )
        for title, arm in newest(name)["arms"].items()
        if "paired rates" in arm
    ]
    return source(name) + table(head, rows)


def velocity_table(name: str) -> str:
    """One row for each arm: error of the velocity, attention kept, work done."""
    head = ("arm", "velocity error %", "beside the base", "attention kept %",
            "attention computed %", "transformer saved %")  # fmt: skip
    rows = [
        (
            title,
            interval(arm["velocity error"], 100, ""),
            _against(arm["velocity error against base"], 100),
            f"{arm['mass kept']['mean'] * 100:.0f}",
            f"{arm['attention executed'] * 100:.0f}",
            f"{arm['flops saved'] * 100:.0f}",
        )
        for title, arm in newest(name)["arms"].items()
    ]
    return source(name) + table(head, rows)


def rendered_table(name: str) -> str:
    """One row for each arm: pictures beside the dense ones, and what the detector reads."""
    head = ("arm", "PSNR dB", "beside the base", "SSIM", "attention computed %",
            "transformer saved %", *(f"{one} %" for one in _READ))  # fmt: skip
    rows = []
    for title, arm in newest(name)["arms"].items():
        made = "psnr" in arm
        rows.append(
            (
                title,
                interval(arm["psnr"], 1, "") if made else "",
                _against(arm["psnr against base"], 1) if made else "",
                f"{arm['ssim']['mean']:.3f}" if made else "",
                f"{arm['attention executed'] * 100:.0f}" if made else "100",
                f"{arm['flops saved'] * 100:.0f}" if made else "0",
                *(f"{arm['read'][one] * 100:.0f}" for one in _READ),
            )
        )
    return source(name) + table(head, rows)


def interval(value: Mapping[str, float], factor: float, sign: str = "+") -> str:
    """Show a mean and half its interval, in units of 1 / factor.

    sign  + for what may be of either sign, else nothing
    """
    mean, half = value["mean"] * factor, value["half"] * factor
    return f"{mean:{sign}.2f} &plusmn; {half:.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in lines)


def made_of(make: Callable[[str], str], name: str) -> Callable[[], str]:
    """Bind a table to the result that it shows."""
    return partial(make, name)


def _headed(signal: str, factor: float) -> str:
    return signal if factor == 1 else f"{signal} x{factor:g}"


def _against(value: Mapping[str, float] | None, factor: float) -> str:
    return "the base" if value is None else interval(value, factor)


def _counted(verdicts: Sequence[str], by_group: Sequence[Mapping[str, str]]) -> str:
    """Count the verdicts, and say of those that are not pass which readings gave them."""
    cells = []
    for word, count in sorted(Counter(verdicts).items()):
        owed = Counter(
            group
            for verdict, groups in zip(verdicts, by_group, strict=True)
            for group, own in groups.items()
            if verdict == own == word != "pass"
        )
        told = f" ({', '.join(f'{group} {times}' for group, times in sorted(owed.items()))})"
        cells.append(f"{count} {word}{told if owed else ''}")
    return ", ".join(cells)


def _shape(arm: Mapping[str, Any]) -> str:
    return f"{arm['last clip read']['shape'] * 100:.0f}"


def _failing(clips: Sequence[int | None]) -> str:
    found = sorted(clip for clip in clips if clip is not None)
    return ", ".join(map(str, found)) or "never"
