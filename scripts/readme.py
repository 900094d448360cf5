"""Fills the tables of README.md and docs/ that are made from the code, or checks them (--check)."""

import argparse
import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chaining.controls import Controls, Handover
from chaining.story import Shot, Story
from scripts.results import (
    drift_steps_table,
    drift_table,
    made_of,
    paired_drift_table,
    rendered_table,
    table,
    velocity_table,
)
from server.cli.settings import shown_value
from server.settings import ServerSettings
from vidgen.families import Recipe
from vidgen.models import DEFAULT_MODEL, KNOWN
from vidgen.request import VideoRequest, aliases_of, fields, group_of

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Rewrite or check the pages; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when stale")
    check = parser.parse_args().check
    for name, sections in PAGES.items():
        page = ROOT / name
        have = page.read_text("utf-8")
        want = filled(name, have, sections)
        if check and have != want:
            print(f"{name} has stale tables; run `make readme`.", file=sys.stderr)
            return 1
        if not check:
            page.write_text(want, "utf-8")
    return 0


def filled(page: str, text: str, sections: "Sections") -> str:
    """Return the text of a page with every generated section made anew."""
    for name, make in sections.items():
        begin, end = f"<!-- {name}: made by scripts/readme.py -->\n", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise ValueError(f"{page} lacks the marks of the section {name!r}")
        text = f"{head}{begin}{make()}{end}{tail}"
    return text


def fields_table() -> str:
    """One row for each field of a request."""
    schema = VideoRequest.model_json_schema()["properties"]
    rows = (
        (
            group_of(info),
            f"`{name}`",
            _values(schema[name]),
            _default(name, info),
            info.description or "",
            ", ".join(f"`{alias}`" for alias in aliases_of(info)),
        )
        for name, info in fields().items()
    )
    return table(("group", "field", "values", "default", "meaning", "also accepted"), rows)


def parts_table(part: type[BaseModel]) -> Callable[[], str]:
    """Return what makes the table of a story's part: one row for each key."""

    def made() -> str:
        schemas = part.model_json_schema()["properties"]
        rows = (
            (
                f"`{name}`",
                _values(schemas[name]),
                _default(name, info),
                info.description or "",
            )
            for name, info in part.model_fields.items()
        )
        return table(("key", "values", "default", "meaning"), rows)

    return made


def models_table() -> str:
    """One row for each model that can be asked for by name."""
    toy = (f"`{DEFAULT_MODEL}`", "bundled", "a toy world, the default", "Apache-2.0")
    rows = ((f"`{row.name}`", f"`{row.hub_id}`", row.about, row.licence) for row in KNOWN)
    return table(("name", "weights", "what it is", "licence"), (toy, *rows))


def settings_table() -> str:
    """One row for each setting of the server."""
    rows = (
        (f"`{name}`", _shown(info.default), info.description or "")
        for name, info in ServerSettings.model_fields.items()
    )
    return table(("setting", "default", "meaning"), rows)


def _shown(default: Any) -> str:
    text = shown_value(default)
    return f"`{text}`" if text and not isinstance(default, bool) else text


Sections = dict[str, Callable[[], str]]
PAGES: dict[str, Sections] = {
    "README.md": {"fields": fields_table, "models": models_table},
    "docs/storyboards.md": {
        "story": parts_table(Story),
        "shot": parts_table(Shot),
        "handover": parts_table(Handover),
        "controls": parts_table(Controls),
    },
    "docs/operating.md": {"settings": settings_table},
    "docs/results.md": {
        "rendered-1296": made_of(rendered_table, "sparsity-rendered-1296"),
        "rendered-3024": made_of(rendered_table, "sparsity-rendered-3024"),
        "velocity-1296": made_of(velocity_table, "sparsity-velocity-1296"),
        "velocity-3024": made_of(velocity_table, "sparsity-velocity-3024"),
        "velocity-choices-3024": made_of(velocity_table, "sparsity-velocity-choices-3024"),
        "drift-chains": made_of(drift_table, "drift-chains"),
        "drift-steps": made_of(drift_steps_table, "drift-chains"),
        "drift-sparse": made_of(paired_drift_table, "drift-sparse"),
    },
}


def _values(schema: dict[str, Any]) -> str:
    """Say in a few words what a field takes: its choices, or its type and bounds."""
    options = [item for item in schema.get("anyOf", [schema]) if item.get("type") != "null"]
    if len(options) > 1 and all("const" in item or "type" in item for item in options):
        return " or ".join(_values(item) for item in options)
    shape = options[0]
    if "$ref" in shape:
        return "keys, below"
    if "const" in shape:
        return f"`{shape['const']}`"
    if "enum" in shape:
        return " ".join(f"`{value}`" for value in shape["enum"])
    kind = {
        "integer": "whole number",
        "string": "text",
        "boolean": "yes or no",
        "object": "fields",
    }.get(shape.get("type", "number"), shape.get("type", "number"))
    if kind == "array":
        return f"up to {shape['maxItems']}" if "maxItems" in shape else "a list"
    return f"{kind}{_bounds(shape) if kind != 'text' else ''}"


def _bounds(shape: dict[str, Any]) -> str:
    low = shape.get("minimum", shape.get("ge"))
    above = shape.get("exclusiveMinimum", shape.get("gt"))
    high = shape.get("maximum", shape.get("le"))
    if above is not None:
        return f" above {above}, up to {high}"
    if low is None:
        return ""
    return f", {low} or more" if high in (None, 2**63 - 1) else f" {low} to {high}"


def _default(name: str, info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if isinstance(info.default, BaseModel) or info.default_factory is not None:
        return ""
    if info.default is None:
        return "the model's" if name in {item.name for item in dataclasses.fields(Recipe)} else ""
    if info.default == ():
        return ""
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    return f"`{info.default}`"


if __name__ == "__main__":
    sys.exit(main())
