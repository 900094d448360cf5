"""Options of a job that a server does, made from what the API declares."""

import dataclasses
import types
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from server.api.fields import JobOptions
from vidgen.cli.options import flags_given, option_name

JOB = Group("Job", sort_key=-1)
_LEFT_OUT = ("metadata", "hold")  # notes of programs; a paused job is made by `vidgen queue pause`


def _option(name: str, info: FieldInfo) -> tuple[str, Any, Any]:
    """Make one option; values stay text, so that the server alone judges them."""
    kinds = {info.annotation, *get_args(info.annotation)} - {type(None)}
    kind: Any = str | None
    if get_origin(info.annotation) not in (None, Union, types.UnionType):
        kind = list[str] | None
    elif bool in kinds:
        kind = bool | None
    metavar = "FLOAT" if float in kinds else "INT" if int in kinds else "TEXT"
    parameter = Parameter(
        name=option_name(name),
        help=info.description,
        group=JOB,
        show_default=False,
        metavar=None if kind == bool | None else metavar,
        negative=(),
        allow_leading_hyphen=int in kinds,
    )
    return name, Annotated[kind, parameter], dataclasses.field(default=None)


if TYPE_CHECKING:

    class JobFlags:
        """One attribute for each option of a job; None where no flag was given."""

        detach: bool = False
else:
    JobFlags = dataclasses.make_dataclass(
        "JobFlags",
        [
            *(
                _option(name, info)
                for name, info in JobOptions.model_fields.items()
                if name not in _LEFT_OUT
            ),
            (
                "detach",
                Annotated[
                    bool,
                    Parameter(
                        help="Hand the job in, print its id and do not wait for it.",
                        group=JOB,
                        show_default=False,
                        negative=(),
                    ),
                ],
                dataclasses.field(default=False),
            ),
        ],
        frozen=True,
        kw_only=True,
        namespace={"__module__": __name__},
    )

JobFlagsOf = Annotated[JobFlags, Parameter(name="*")]


def options_given(flags: JobFlags) -> dict[str, Any]:
    """Return the options of the job that were given, as the API takes them."""
    return {name: value for name, value in flags_given(flags).items() if name != "detach"}
