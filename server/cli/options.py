"""Options of the server's commands; those of the settings are made from their declaration."""

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_origin

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from server.settings import ServerSettings
from vidgen.cli.options import option_name

SETTINGS = Group("Settings", sort_key=3)
REACH = Group("Server", sort_key=4)
URL_VARIABLE = "VIDGEN_SERVER"
KEY_VARIABLE = "VIDGEN_API_KEY"


def _default(info: FieldInfo) -> str:
    if isinstance(info.default, bool):
        return " [default: yes]" if info.default else ""
    if info.default in ("", ()):
        return ""
    return f" [default: {info.default:g}]" if _is_number(info) else f" [default: {info.default}]"


def _is_number(info: FieldInfo) -> bool:
    return info.annotation in (int, float)


def _option(name: str, info: FieldInfo) -> tuple[str, Any, Any]:
    """Make one option; values stay text, so that the settings alone judge them."""
    switch = info.annotation is bool
    kind: Any = bool | None if switch else str | None
    metavar = "INT" if info.annotation is int else "FLOAT" if info.annotation is float else "TEXT"
    if get_origin(info.annotation) is tuple:
        metavar = "A,B"
    parameter = Parameter(
        name=option_name(name),
        help=f"{info.description}{_default(info)}",
        group=SETTINGS,
        show_default=False,
        metavar=None if switch else metavar,
        negative=f"--no-{name.replace('_', '-')}" if switch else (),
    )
    return name, Annotated[kind, parameter], dataclasses.field(default=None)


if TYPE_CHECKING:

    class SettingsFlags:
        """One attribute for each setting of the server; None where no flag was given."""
else:
    SettingsFlags = dataclasses.make_dataclass(
        "SettingsFlags",
        [_option(name, info) for name, info in ServerSettings.model_fields.items()],
        frozen=True,
        kw_only=True,
        namespace={"__module__": __name__},
    )


@dataclass(frozen=True, kw_only=True)
class Remote:
    """The server that does a job."""

    server: Annotated[
        str | None,
        Parameter(
            help=f"Address of a server, e.g. http://127.0.0.1:8000 ({URL_VARIABLE}).",
            group=REACH,
            show_default=False,
        ),
    ] = None
    key: Annotated[
        str | None,
        Parameter(
            help=f"API key for it; better in {KEY_VARIABLE}, which no process list shows.",
            group=REACH,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Reach(Remote):
    """The server that a command speaks to; without one it works on the database of this machine."""

    database: Annotated[
        str | None,
        Parameter(
            help="Without a server: the database that is opened. "
            f"{ServerSettings.model_fields['database'].description}",
            group=REACH,
            show_default=False,
        ),
    ] = None


RemoteOf = Annotated[Remote, Parameter(name="*")]
SettingsOf = Annotated[SettingsFlags, Parameter(name="*")]
ReachOf = Annotated[Reach, Parameter(name="*")]
