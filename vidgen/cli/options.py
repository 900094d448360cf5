"""The options that commands share; those of a request are made from its fields."""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from vidgen.request import aliases_of, fields, group_of
from vidgen.request_names import RESOLUTIONS

Command = TypeVar("Command", bound=Callable[..., Any])

_SHORT = {"prompt": "-p", "image": "-i", "n": "-n", "seed": "-s"}
_GROUPS = ("prompt", "model", "inputs", "size", "sampling", "attention", "memory", "output")
_ORDERED = {name: Group(name.capitalize(), sort_key=i) for i, name in enumerate(_GROUPS)}
_RUN = Group("Run", sort_key=len(_GROUPS))
COMMON = Group("Program", sort_key=len(_GROUPS) + 1)

_SHORTHAND_TEXT = {
    "size": "Width and height at once, e.g. 832x480.",
    "resolution": f"Shorter side: {', '.join(RESOLUTIONS)}.",
}


def option_name(name: str) -> str:
    """Return the long option of a field: num_frames -> --num-frames."""
    return "--" + name.replace("_", "-")


def _names(name: str, info: FieldInfo) -> tuple[str, ...]:
    short = (_SHORT[name],) if name in _SHORT else ()
    return (*(option_name(item) for item in (name, *aliases_of(info))), *short)


def choices_of(info: FieldInfo) -> tuple[str, ...]:
    """Return the words that a field is limited to, if it is."""
    found: list[str] = []
    for part in (info.annotation, *get_args(info.annotation)):
        found += [item for item in get_args(part) if isinstance(item, str)]
    return tuple(dict.fromkeys(found))


def _text(info: FieldInfo) -> str:
    words = choices_of(info)
    listed = f" One of: {', '.join(words)}." if words else ""
    default = info.default
    if info.is_required() or default is None or isinstance(default, bool | tuple):
        return f"{info.description}{listed}"
    return f"{info.description}{listed} [default: {default}]"


def _metavar(info: FieldInfo) -> str:
    """Say what an option takes: INT, FLOAT, or TEXT where several forms are read."""
    kinds = {info.annotation, *get_args(info.annotation)}
    return "INT" if int in kinds else "FLOAT" if float in kinds else "TEXT"


def _request_option(name: str, info: FieldInfo) -> tuple[str, Any, Any]:
    """Make one option; values stay text, so that the request alone judges them in its own words."""
    kind: Any = str | None
    if isinstance(info.default, bool):
        kind = bool | None
    elif info.default == ():
        kind = list[str] | None
    parameter = Parameter(
        name=_names(name, info),
        help=_text(info),
        group=_ORDERED[group_of(info)],
        show_default=False,
        required=False,
        metavar=None if kind == bool | None else _metavar(info),
        negative=(),
        allow_leading_hyphen=name == "seed",
    )
    return name, Annotated[kind, parameter], dataclasses.field(default=None)


def _shorthand_option(name: str, text: str) -> tuple[str, Any, Any]:
    names = (option_name(name), "--res") if name == "resolution" else (option_name(name),)
    parameter = Parameter(
        name=names, help=text, group=_ORDERED["size"], show_default=False, metavar="TEXT"
    )
    return name, Annotated[str | None, parameter], dataclasses.field(default=None)


if TYPE_CHECKING:

    class RequestFlags:
        """One attribute for each field of a request; None where no flag was given."""
else:
    RequestFlags = dataclasses.make_dataclass(
        "RequestFlags",
        [
            *(_request_option(name, info) for name, info in fields().items()),
            *(_shorthand_option(name, text) for name, text in _SHORTHAND_TEXT.items()),
        ],
        frozen=True,
        kw_only=True,
        namespace={"__module__": __name__},
    )


def flowing(command: Command) -> Command:
    """Join the lines of a command's help text, so that the terminal breaks them where it ends."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    return command


def flags_given(flags: Any) -> dict[str, Any]:
    """Return the values of the flags that were given, by name."""
    found = {item.name: getattr(flags, item.name) for item in dataclasses.fields(flags)}
    return {name: value for name, value in found.items() if value is not None}


def _run(text: str, *names: str) -> Any:
    return Parameter(name=names or None, help=text, group=_RUN, show_default=False)


def _common(text: str, *names: str) -> Any:
    return Parameter(name=names or None, help=text, group=COMMON, negative=(), show_default=False)


@dataclass(frozen=True, kw_only=True)
class Common:
    """How a command speaks."""

    json: Annotated[
        bool, _common("Print JSON lines on stdout and nothing else; errors too.", "--json")
    ] = False
    quiet: Annotated[bool, _common("Print errors only.", "--quiet", "-q")] = False
    verbose: Annotated[bool, _common("Show the traceback of an error.", "--verbose", "-v")] = False
    home: Annotated[
        Path | None, _common("Folder of settings and caches (VIDGEN_HOME).", "--home")
    ] = None
    config: Annotated[Path | None, _common("Settings file: .toml, .yaml or .json.", "--config")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where and how a command makes clips."""

    device: Annotated[
        str | None,
        _run("auto, cpu, cuda or cuda:1; with --dry-run also a named profile.", "--device"),
    ] = None
    offline: Annotated[
        bool | None, Parameter(help="Never use the network.", group=_RUN, negative=(),
                               show_default=False)
    ] = None  # fmt: skip

    def given(self) -> dict[str, Any]:
        """Return the settings that flags gave."""
        found = {"device": self.device, "offline": self.offline}
        return {name: value for name, value in found.items() if value is not None}


FlagsOf = Annotated[RequestFlags, Parameter(name="*")]
CommonOf = Annotated[Common, Parameter(name="*")]
RunningOf = Annotated[Running, Parameter(name="*")]
