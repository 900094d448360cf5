"""Where a request's values come from: flag over environment over files, each with its origin.

A value that no layer gives stays out, so that the preset and the model's own recipe fill it in
`plan`. Nothing is read at import.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vidgen.errors import BadRequest, NotFound
from vidgen.home import Home
from vidgen.request import aliases_of, canonical_names, fields
from vidgen.request_names import SHORTHANDS

_Value = TypeVar("_Value")

PREFIX = "VIDGEN_"
PROJECT_FILE = "vidgen.toml"

# Settings of the command line itself, beside the fields of a request.
OWN: dict[str, str] = {
    "device": "Device that makes clips: auto, cpu, cuda or cuda:1.",
    "offline": "Never use the network.",
    "name_template": "Name of a clip's file, without suffix.",
}
SERVER_TABLE = "server"  # of a settings file: the server reads it, a request does not

# Read elsewhere; named here so that a misspelt one is noticed.
_ELSEWHERE = ("home", "config", "server", "api_key")
# Fields that say the same thing in two ways: a higher layer's word silences a lower layer's other.
_RIVALS: Mapping[str, frozenset[str]] = {
    "num_frames": frozenset({"seconds"}),
    "seconds": frozenset({"num_frames"}),
    "aspect": frozenset({"width", "height"}),
    "width": frozenset({"aspect"}),
    "height": frozenset({"aspect"}),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it was given, e.g. "flag", "VIDGEN_STEPS" or a file's path."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What all layers together give."""

    values: Mapping[str, Setting]

    def request(self) -> dict[str, Any]:
        """Return the values that belong into a request."""
        return {name: item.value for name, item in self.values.items() if name not in OWN}

    def own(self, name: str, default: str) -> str:
        """Return a setting of the command line as text."""
        found = self.values.get(name)
        return default if found is None or found.value is None else str(found.value)

    def switch(self, name: str) -> bool:
        """Return a yes-or-no setting of the command line.

        Raises  BadRequest when it is neither
        """
        found = self.values.get(name)
        if found is None or isinstance(found.value, bool):
            return bool(found and found.value)
        word = str(found.value).strip().lower()
        if word not in _SWITCHES:
            raise BadRequest(
                f"{name}={found.value!r} (from {found.origin}) is neither yes nor no.", field=name
            )
        return _SWITCHES[word]


_SWITCHES = {
    "1": True, "true": True, "yes": True, "on": True,
    "0": False, "false": False, "no": False, "off": False, "": False,
}  # fmt: skip


def gather(
    flags: Mapping[str, Any],
    *,
    config: Path | None,
    home: Home,
    environ: Mapping[str, str],
    folder: Path,
) -> Settings:
    """Lay flags over the environment over a named file over ./vidgen.toml over the user's file.

    flags   only those that were given
    folder  where the project file is looked for
    Raises  BadRequest naming the layer at fault, NotFound for a named file that is missing
    """
    layers: list[dict[str, Setting]] = [
        _layer(flags, "flag"),
        from_environment(environ),
    ]
    files = files_there(config, folder / PROJECT_FILE, home.settings)
    layers += [_file_layer(read_file(path), path) for path in files]
    return Settings(_laid_over(layers))


def files_there(named: Path | None, *others: Path) -> list[Path]:
    """Return the settings files that are there, the strongest first.

    named   by the user, so it must be there
    Raises  NotFound, BadRequest for a folder in the place of one
    """
    files = [*others] if named is None else [named, *others]
    for path in files:
        if path.is_dir():
            raise BadRequest(
                f"The settings file {path} is a folder; move it away or put a file in its place.",
                field="config",
            )
    if named is not None and not named.is_file():
        raise NotFound(f"The settings file {named} does not exist.", field="config")
    return [path for path in files if path.is_file()]


def _laid_over(layers: Sequence[Mapping[str, Setting]]) -> dict[str, Setting]:
    """Merge layers, the first one strongest."""
    out: dict[str, Setting] = {}
    for layer in layers:
        out = outweighed(layer, out)
    return out


def outweighed(lower: Mapping[str, _Value], upper: Mapping[str, _Value]) -> dict[str, _Value]:
    """Lay canonical fields over others; one that says the same in another way silences it."""
    kept = {name: item for name, item in lower.items() if not _rivals(name) & upper.keys()}
    return {**kept, **upper}


def _rivals(name: str) -> frozenset[str]:
    return _RIVALS.get(name, frozenset())


def _layer(data: Mapping[str, Any], origin: str) -> dict[str, Setting]:
    named = {str(name).replace("-", "_"): value for name, value in data.items()}
    own = {name: named.pop(name) for name in OWN if name in named}
    try:
        request = listed(canonical_names(named))
    except ValueError as error:
        where = "" if origin == "flag" else f"{origin}: "
        raise BadRequest(f"{where}{error}.", field=None) from None
    return {name: Setting(value, origin) for name, value in {**own, **request}.items()}


def _file_layer(data: Mapping[str, Any], path: Path) -> dict[str, Setting]:
    return _layer({name: item for name, item in data.items() if name != SERVER_TABLE}, str(path))


def from_environment(environ: Mapping[str, str]) -> dict[str, Setting]:
    """Read the VIDGEN_ variables; one that nearly is a setting's name is taken for a slip.

    Other unknown ones pass: container platforms inject variables of that form by themselves.
    Raises  BadRequest
    """
    names = environment_names()
    out: dict[str, Setting] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        name = names.get(variable)
        if name is None:
            near = difflib.get_close_matches(variable, names, n=1, cutoff=0.85)
            if near:
                raise BadRequest(f"{variable} is not a setting; did you mean {near[0]}?")
        elif name not in _ELSEWHERE:
            layer = _layer({name: environ[variable]}, variable)
            for field, item in layer.items():
                if field in out:
                    raise BadRequest(
                        f"{out[field].origin} and {variable} set the same field; keep one of them."
                    )
                out[field] = item
    return out


def environment_names() -> dict[str, str]:
    """Return every variable that is read, with the setting that it sets."""
    names = [*OWN, *SHORTHANDS, *_ELSEWHERE]
    for name, info in fields().items():
        names += [name, *aliases_of(info)]
    return {PREFIX + name.upper(): name for name in names}


def listed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read texts of fields that take several values: a JSON list, or separated by commas."""
    several = {name for name, info in fields().items() if info.default == ()}
    return {
        name: listed_text(value) if name in several and isinstance(value, str) else value
        for name, value in data.items()
    }


def listed_text(text: str) -> Any:
    """Read the text of several values: a JSON list, or separated by commas."""
    return json.loads(text) if text.lstrip().startswith("[") else text.split(",")


def read_file(path: Path) -> dict[str, Any]:
    """Read a settings file: TOML, JSON or YAML by its suffix.

    Raises  BadRequest when it cannot be read or is not a table of names and values
    """
    suffix = path.suffix.lower()
    try:
        text = path.read_text("utf-8")
        data = _PARSERS[suffix](text)
    except KeyError:
        raise BadRequest(
            f"{path} must end in {', '.join(_PARSERS)} to be read as settings.", field="config"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"{path} cannot be read as settings: {error}.", field="config") from error
    if not isinstance(data, dict):
        raise BadRequest(f"{path} must be a table of names and values.", field="config")
    return data


def _yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


_PARSERS: dict[str, Callable[[str], Any]] = {
    ".toml": tomllib.loads,
    ".json": json.loads,
    ".yaml": _yaml,
    ".yml": _yaml,
}


def write_setting(path: Path, name: str, value: str) -> None:
    """Set one top-level value in a TOML file, leaving its other lines as they are.

    name    canonical; a line that sets it by another name, or its rival, goes
    Raises  BadRequest when the file could not be read with it
    """
    try:
        lines = path.read_text("utf-8").split("\n") if path.is_file() else []
    except UnicodeDecodeError:
        raise BadRequest(f"{path} is not UTF-8 text; mend or delete the file.") from None
    if lines[-1:] == [""]:
        del lines[-1]
    end = _end_of_top(lines)
    same = [index for index in range(end) if _sets(lines[index], name)]
    lines.insert(same[0] if same else end, f"{name} = {_toml(value)}")
    for index in reversed(same):
        del lines[index + 1]
    text = "\n".join(lines) + "\n"
    try:
        _file_layer(tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        raise BadRequest(
            f"{name} cannot be set in {path} ({error}); edit the file.", field=name
        ) from None
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, "utf-8")
    part.replace(path)


def _sets(line: str, name: str) -> bool:
    """Whether a line of a TOML file sets a field, by any of its names, or a rival of it."""
    key, equals, _ = line.partition("=")
    key = key.strip().strip("\"'").replace("-", "_")
    if not equals or not key or key in SHORTHANDS:
        return False
    try:
        found = key if key in OWN else next(iter(canonical_names({key: None})))
    except ValueError:
        return False
    return found == name or found in _rivals(name)


def _end_of_top(lines: Sequence[str]) -> int:
    for index, line in enumerate(lines):
        if line.lstrip().startswith("["):
            return index
    return len(lines)


def _toml(value: str) -> str:
    """Write a value as TOML: numbers, true, false and lists as such, the rest as text."""
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(parsed, bool | int | float | list):
        return value
    return json.dumps(value, ensure_ascii=False)
