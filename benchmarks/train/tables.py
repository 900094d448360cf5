"""The result of an evaluation as Markdown tables for the model card."""

from __future__ import annotations

from typing import Any

from benchmarks.train.pinned import KINDS
from benchmarks.train.tally import READ
from benchmarks.train.world import SHAPES

_PARTS = {
    "t2v": "text to video",
    "i2v": "image to video",
    "large": "text, 192x192, 33 frames",
    "long": "text, 192x192, 81 frames",
}


def markdown(result: dict[str, Any]) -> str:
    """What was measured; parts that the result lacks are left out."""
    tables = (_attributes(result), _given(result), _confusion(result), _instruments(result))
    return "\n\n".join(table for table in tables if table)


def acceptance_table(rows: list[dict[str, Any]]) -> str:
    """Each criterion with floor, target and value."""
    lines = [
        "| criterion | floor | target | measured | floor met | target met |",
        "|---|---|---|---|---|---|",
    ]
    words = {True: "yes", False: "**no**", None: ""}
    for row in rows:
        sign = "&le; " if row["highest"] else "&ge; "
        floor, target = (
            "" if row[name] is None else sign + _number(row[name], row["unit"])
            for name in ("floor", "target")
        )
        value = "not measured" if row["value"] is None else _number(row["value"], row["unit"])
        met = " | ".join(words[row[name]] for name in ("floor met", "target met"))
        lines.append(f"| {row['name']} | {floor} | {target} | {value} | {met} |")
    return "\n".join(lines)


def _attributes(result: dict[str, Any]) -> str:
    parts = [name for name in _PARTS if name in result]
    if not parts:
        return ""
    lines = [
        "| held-out prompts | " + " | ".join(_PARTS[part] for part in parts) + " |",
        "|---" * (len(parts) + 1) + "|",
    ]
    lines += _rows([result[part] for part in parts])
    spurious = " | ".join(f"{result[part]['spurious per clip']:.3f}" for part in parts)
    lines.append(f"| spurious objects per frame | {spurious} |")
    return "\n".join(lines)


def _given(result: dict[str, Any]) -> str:
    if "pinned" not in result:
        return ""
    kinds = [kind for kind in KINDS if kind in result["pinned"]]
    lines = [
        "Given frames, through the engine (a prefix is counted in latent frames); attributes are "
        "read from the frames that the model painted.",
        "",
        "| | " + " | ".join(kinds) + " |",
        "|---" * (len(kinds) + 1) + "|",
    ]
    tables = [result["pinned"][kind] for kind in kinds]
    lines += _rows(tables)
    for label, key in (
        ("given frames against the true ones", "given frames dB"),
        ("the VAE's round trip of the same frames", "VAE dB"),
        ("whole clip against the true one", "clip dB"),
    ):
        lines.append(f"| {label} | " + " | ".join(f"{t[key]:.1f} dB" for t in tables) + " |")
    return "\n".join(lines)


def _confusion(result: dict[str, Any]) -> str:
    parts = [name for name in _PARTS if name in result]
    if not parts:
        return ""
    read = (*SHAPES, "none")
    lines = [
        "Shapes asked for and read:",
        "",
        "| asked | " + " | ".join(f"read {name}" for name in read) + " |",
        "|---" * (len(read) + 1) + "|",
    ]
    for part in parts:
        for shape, counts in result[part]["shape confusion"].items():
            cells = " | ".join(str(counts[name]) for name in read)
            lines.append(f"| {shape}, {_PARTS[part]} | {cells} |")
    return "\n".join(lines)


def _instruments(result: dict[str, Any]) -> str:
    lines = []
    if "detector" in result:
        checks = result["detector"]
        wrong = checks["wrong captions"]
        for name, table in checks.items():
            if "colour" in table:
                worst = min(READ, key=lambda key: table[key]["share"])
                lines.append(f"- Detector on {name}: least {_cell(table[worst])} ({worst}).")
        lines.append(
            f"- Of {wrong['of']} captions with one wrong attribute {wrong['said wrong']} were said "
            f"wrong, and {wrong['rest said right']} had all the rest said right."
        )
    if "control" in result:
        above = result["control"]["above chance"]
        lines.append(
            f"- Untrained weights of the same architecture: "
            f"{', '.join(above) if above else 'no attribute'} above chance."
        )
    if "vae" in result:
        vae = result["vae"]
        lines.append(
            f"- VAE round trip: clip {vae['clip_db']:.1f} dB, first frame "
            f"{vae['first_frame_db']:.1f} dB, 33 frames {vae['33_frames_db']:.1f} dB, 160x160 "
            f"{vae['160x160_db']:.1f} dB."
        )
    return "\n".join(lines)


def _rows(tables: list[dict[str, Any]]) -> list[str]:
    """One line per attribute with a cell of each tally."""
    return [f"| {name} | " + " | ".join(_cell(t[name]) for t in tables) + " |" for name in READ]


def _cell(entry: dict[str, Any]) -> str:
    low, high = entry["interval"]
    return (
        f"{100 * entry['share']:.0f} % ({entry['hits']}/{entry['of']}, "
        f"{100 * low:.0f}-{100 * high:.0f})"
    )


def _number(value: float, unit: str) -> str:
    if unit == "%":
        return f"{100 * value:.0f} %"
    return f"{value:.3g}" + (f" {unit}" if unit else "")
