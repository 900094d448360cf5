"""Where the server's settings come from: flag over environment over the files' [server] tables."""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from server.settings import ServerSettings, masked
from vidgen.cli.options import Common
from vidgen.cli.place import home_of
from vidgen.errors import BadRequest
from vidgen.request_names import explain
from vidgen.settings import (
    PREFIX,
    PROJECT_FILE,
    SERVER_TABLE,
    Setting,
    environment_names,
    files_there,
    listed_text,
    read_file,
)

_NAMES = tuple(ServerSettings.model_fields)


def gather_settings(
    flags: Mapping[str, Any],
    common: Common,
    *,
    environ: Mapping[str, str] = os.environ,
    folder: Path = Path(),
) -> tuple[ServerSettings, dict[str, Setting]]:
    """Lay flags over VIDGEN_<NAME> over a named file over ./vidgen.toml over the user's file.

    flags    only those that were given
    folder   where the project's file is looked for
    Returns  the settings, and of each that was given its value and where it was given
    Raises   BadRequest naming the layer at fault, NotFound for a named file that is missing
    """
    layers = [_layer(flags, "flag"), _environment(environ)]
    for path in _files(common, environ, folder):
        table = read_file(path).get(SERVER_TABLE, {})
        if not isinstance(table, dict):
            raise BadRequest(f"{path}: [{SERVER_TABLE}] must be a table of settings.")
        layers.append(_layer(table, str(path)))
    found: dict[str, Setting] = {}
    for layer in reversed(layers):
        found |= layer
    return _settings(found), found


def _files(common: Common, environ: Mapping[str, str], folder: Path) -> list[Path]:
    """Return the files that are there, the strongest first."""
    named = common.config or environ.get("VIDGEN_CONFIG")
    places = folder / PROJECT_FILE, home_of(common).settings
    return files_there(Path(named) if named else None, *places)


def _layer(data: Mapping[str, Any], origin: str) -> dict[str, Setting]:
    out = {}
    for key, value in data.items():
        name = str(key).replace("-", "_")
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, n=2, cutoff=0.6)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            raise BadRequest(f"{origin}: the server has no setting {name[:60]!r}{hint}")
        out[name] = Setting(_several(name, value), origin)
    return out


def _several(name: str, value: Any) -> Any:
    """Read the text of a setting that takes several values."""
    several = get_origin(ServerSettings.model_fields[name].annotation) is tuple
    return listed_text(value) if several and isinstance(value, str) else value


def _environment(environ: Mapping[str, str]) -> dict[str, Setting]:
    """Read the server's VIDGEN_ variables; one that nearly is one of them is taken for a slip."""
    names = {PREFIX + name.upper(): name for name in _NAMES}
    known = {**environment_names(), **names}
    out = {}
    for variable in sorted(environ):
        if variable in names:
            value = _several(names[variable], environ[variable])
            out[names[variable]] = Setting(value, variable)
        elif variable.startswith(PREFIX) and variable not in known:
            near = difflib.get_close_matches(variable, known, n=2, cutoff=0.85)
            if near:
                raise BadRequest(f"{variable} is not a setting; did you mean {' or '.join(near)}?")
    return out


def _settings(found: Mapping[str, Setting]) -> ServerSettings:
    values = {name: item.value for name, item in found.items()}
    try:
        return ServerSettings.model_validate(values)
    except ValidationError as error:
        refusal = explain(error)
        at_fault = found.get(refusal.field or "")
        origin = "flag" if at_fault is None else at_fault.origin
        where = "" if origin == "flag" else f" (from {origin})"
        text = masked(refusal.message.rstrip("."))
        raise BadRequest(f"{text}{where}.", field=refusal.field) from None


def shown_value(value: Any) -> str:
    """Return a setting as text for a person: no password, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return masked(f"{value:g}" if isinstance(value, float) else str(value))
