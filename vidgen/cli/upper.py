"""What the packages above this one add to the program: named as text, imported when it is used."""

import importlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

_HOMES = {
    **dict.fromkeys(("chain", "extend", "drift"), "chaining"),
    **dict.fromkeys(("serve", "worker", "queue", "keys"), "server"),
    "ui": "demos",
}
# Commands that a server can do in place of this machine.
_REMOTE = ("generate", "batch", "chain", "extend")
_CHECKS = "server.cli.doctor:checks"
_SETTINGS = "server.settings:ServerSettings"
SERVER = "VIDGEN_SERVER"


def home_of_command(name: str, words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return where a command is, as module:name.

    words    of the command line
    environ  a server that it names does the job unless the words name another, or none
    """
    if words[:1] == [name] and name in _REMOTE and _server(words, environ):
        return f"server.cli.remote_{name}:{name}"
    return f"{_HOMES.get(name, 'vidgen')}.cli.{name}:{name}"


def _server(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the server that is to do the job; empty for this machine."""
    found = environ.get(SERVER, "")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--server":
            found = following or "-"
        elif word.startswith("--server="):
            found = word.removeprefix("--server=")
    return found


def without_server_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables that only the server reads."""
    settings = _load(_SETTINGS)
    own = {f"VIDGEN_{name.upper()}" for name in settings.model_fields}
    return {name: value for name, value in environ.items() if name not in own}


def server_checks() -> Any:
    """Return the function that checks what the server needs, None where it is not installed."""
    return None if find_spec("sqlalchemy") is None else _load(_CHECKS)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
