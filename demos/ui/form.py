"""Form: one widget for each field of a request, made from what VideoRequest declares.

Nothing about a field stands here but where it is shown first; a field that is added to the
request appears among the advanced ones, under its group, by itself.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import gradio as gr
from gradio.components import Component

from vidgen.cli.options import option_name
from vidgen.models import known_names
from vidgen.request import VideoRequest

# Shown at once, in this order; all others are advanced.
FIRST = ("prompt", "negative_prompt", "image", "last_image", "model", "aspect", "seconds",
         "preset", "seed", "n")  # fmt: skip
# They hold references of what was uploaded.
MOST_CLIPS = 64  # of one press
FILES = ("image", "last_image", "video", "mask", "reference_images")
ASPECTS = ("16:9", "4:3", "1:1", "3:4", "9:16")
OWN = "model's own"
_LABELS = {"n": "Clips"}  # where a name says nothing to people
_EMPTY = {"prompt": "a big red ball moves quickly left over the sand", "seed": "drawn",
          "negative_prompt": OWN, "loras": "", "reference_images": ""}  # fmt: skip
_EXACT = 2**53  # whole numbers above are not exact in a browser
Kind = Literal["choice", "switch", "number", "lines", "text"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One field as a form shows it.

    choices  of a choice; "" stands for None
    default  what counts as not given
    whole    of a number: no fractions
    """

    name: str
    group: str
    text: str
    kind: Kind
    default: Any
    choices: tuple[str, ...] = ()
    whole: bool = False

    @property
    def label(self) -> str:
        """Its name for people."""
        return _LABELS.get(self.name, self.name.replace("_", " ").capitalize())

    @property
    def hint(self) -> str:
        """Its help text, and the option of the command line."""
        return f"{self.text} {option_name(self.name)}"


def entries(model: type[VideoRequest] = VideoRequest) -> dict[str, Entry]:
    """Return every field by its name, the first ones first and the others as they are declared."""
    found = {}
    for name, schema in model.model_json_schema()["properties"].items():
        kind, choices, whole = _kind(schema)
        found[name] = Entry(name, schema["group"], schema["description"], kind,
                            schema.get("default"), choices, whole)  # fmt: skip
    order = [*FIRST, *(name for name in found if name not in FIRST)]
    return {name: found[name] for name in order}


def _kind(schema: Mapping[str, Any]) -> tuple[Kind, tuple[str, ...], bool]:
    """Return how a field is shown: the kind, the words of a choice, whether a number is whole."""
    several = schema.get("anyOf", [schema])
    part = next(item for item in several if item.get("type") != "null")
    words = tuple(part.get("enum", [part["const"]] if "const" in part else []))
    if words:
        return "choice", ("", *words) if len(several) > 1 else words, False
    if part.get("type") == "boolean":
        return "switch", (), False
    if part.get("type") == "integer" and part.get("maximum", 0) < _EXACT:
        return "number", (), True
    if part.get("type") == "number":
        return "number", (), False
    if part.get("type") == "array" and part["items"].get("type") != "integer":
        return "lines", (), False
    return "text", (), False


def widget(entry: Entry) -> Component:
    """Return the widget of a field, empty or at its default."""
    common: dict[str, Any] = {
        "label": entry.label, "info": entry.hint, "elem_id": f"field-{entry.name}",
        "elem_classes": ["vg-field"], "min_width": 120,
    }  # fmt: skip
    if entry.name == "model":
        return gr.Dropdown(list(known_names()), value=entry.default, allow_custom_value=True,
                           **common)  # fmt: skip
    if entry.name == "aspect":
        return gr.Radio([(OWN, ""), *((item, item) for item in ASPECTS)], value="", **common)
    if entry.kind == "choice":
        return gr.Dropdown(_choices(entry), value=entry.default or "", **common)
    if entry.kind == "switch":
        return gr.Checkbox(bool(entry.default), **common)
    if entry.kind == "number":
        written = "" if entry.default is None else f"{entry.default:g}"
        return gr.Textbox(written, placeholder=OWN, **common)
    lines = 3 if entry.name == "prompt" else 2 if entry.kind == "lines" else 1
    return gr.Textbox("" if entry.kind == "lines" else entry.default or "", lines=lines,
                      max_lines=12, placeholder=_EMPTY.get(entry.name, OWN), **common)  # fmt: skip


def _choices(entry: Entry) -> list[tuple[str, str]]:
    """Return what is shown for each choice, and the choice."""
    return [(item or OWN, item) for item in entry.choices]


def given(found: Mapping[str, Entry], values: Sequence[Any]) -> dict[str, Any]:
    """Return the fields that differ from their defaults, as a request takes them.

    values  of the widgets, in the order of the entries
    """
    out = {}
    for entry, value in zip(found.values(), values, strict=True):
        read = _read(entry, value)
        if read not in (None, "", []) and read != entry.default:
            out[entry.name] = read
    return out


def _read(entry: Entry, value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
    if entry.kind == "lines":
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]
    if entry.kind == "number" or entry.name == "seed":
        return _number(value)
    return value


def _number(value: Any) -> Any:
    """Return the number that a text is; any other text as it is, so that the server says no."""
    try:
        read = float(value)
        if not math.isfinite(read):
            return value
        return int(value) if str(value).lstrip("-").isdecimal() else read
    except (TypeError, ValueError, OverflowError):
        return value


def shown(found: Mapping[str, Entry], request: Mapping[str, Any]) -> list[Any]:
    """Return the values of the widgets, in the order of the entries, that show a request."""
    return [_shown(entry, request.get(entry.name)) for entry in found.values()]


def _shown(entry: Entry, value: Any) -> Any:
    if value is None:
        value = entry.default
    if value is None or (entry.kind == "lines" and not value):
        return ""
    if entry.kind == "lines":
        return "\n".join(_line(item) for item in value)
    if entry.kind == "text" and isinstance(value, list):
        return ",".join(str(item) for item in value)
    return str(value) if entry.kind in ("text", "number") else value


def own_form(found: Mapping[str, Entry]) -> dict[str, Any]:
    """Return what a browser needs to know to keep what is typed.

    defaults  of the widgets, by the names of the fields
    words     of each choice: its values by what is shown for them
    files     names of the fields that hold files, which a server keeps for a while only
    """
    defaults = dict(zip(found, shown(found, {}), strict=True))
    words = {name: dict(_choices(entry)) for name, entry in found.items() if entry.choices}
    return {"defaults": defaults, "words": words, "files": FILES}


def _line(item: Any) -> str:
    """Return a LoRA as the command line takes it, anything else as it is."""
    if not isinstance(item, dict):
        return str(item)
    if "path" not in item:
        return json.dumps(item)
    target = item.get("target", "both")
    return f"{item['path']}:{item.get('weight', 1):g}" + ("" if target == "both" else f":{target}")
