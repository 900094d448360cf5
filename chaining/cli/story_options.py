"""The options of a story, made from what a request and a story declare."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from chaining.controls import Controls, Handover
from chaining.story import Story
from vidgen.cli.options import RequestFlags, choices_of, option_name
from vidgen.errors import BadRequest

_STORY = Group("Story", sort_key=-3)
_HANDOVER = Group("Hand-over", sort_key=-2)
_DRIFT = Group("Drift", sort_key=-1)

# Fields of a request that a chain sets for each of its clips, and what to write instead.
_INSTEAD = {
    "last_image": "--end-image is what the video ends on",
    "n": "a chain is one video; make another one with another --seed",
    "video": "clips continue each other; vidgen extend continues a video",
    "mask": "clips continue each other",
    "strength": "clips continue each other",
    "prefix_frames": "--handover-overlap says how many frames clips share",
    "history": "--handover-mode says how shared frames enter",
    "keep_latents": "the chain's folder keeps the latents of every clip",
    "preview": "clips of a chain have none",
}
HANDOVER = "handover_"


def _text(info: FieldInfo) -> str:
    words = choices_of(info)
    only = words and (info.default is None or info.default in words)
    listed = f" One of: {', '.join(words)}." if only else ""
    plain = info.default is None or isinstance(info.default, bool)
    return f"{info.description}{listed}" + ("" if plain else f" [default: {info.default}]")


def _option(name: str, info: FieldInfo, group: Group) -> tuple[str, Any, Any]:
    """Make one option; values stay text, so that the story alone judges them in its own words."""
    switch = isinstance(info.default, bool)
    parameter = Parameter(
        name=option_name(name),
        help=_text(info),
        group=group,
        show_default=False,
        metavar=None if switch else "TEXT",
        negative=(),
    )
    kind: Any = bool | None if switch else str | None
    return name, Annotated[kind, parameter], dataclasses.field(default=None)


def _declared() -> Iterator[tuple[str, Any, Any]]:
    for name in ("strategy", "end_image"):
        yield _option(name, Story.model_fields[name], _STORY)
    for name, info in Handover.model_fields.items():
        yield _option(f"{HANDOVER}{name}", info, _HANDOVER)
    for name, info in Controls.model_fields.items():
        yield _option(name, info, _DRIFT)


def _requested() -> Iterator[tuple[str, Any, Any]]:
    """Yield the options of a request; those that a chain refuses are not listed."""
    for item in dataclasses.fields(RequestFlags):  # type: ignore[arg-type]
        if item.name in Controls.model_fields:
            continue
        kind: Any = item.type
        if item.name in _INSTEAD:
            kind = Annotated[kind, Parameter(show=False)]
        yield item.name, kind, dataclasses.field(default=None)


if TYPE_CHECKING:

    class ClipFlags:
        """One attribute for each field of a request that is not one of a story's controls."""

    class StoryFlags:
        """One attribute for each way in which clips hand over and are held together."""
else:

    def _made(name: str, options: Iterator[tuple[str, Any, Any]]) -> type:
        return dataclasses.make_dataclass(
            name, list(options), frozen=True, kw_only=True, namespace={"__module__": __name__}
        )

    ClipFlags = _made("ClipFlags", _requested())
    StoryFlags = _made("StoryFlags", _declared())


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shots:
    """Where the shots of a story are written."""

    storyboard: Annotated[
        Path | None,
        Parameter(
            help="A story's file: .yaml, .json or .csv (one shot a row). Options outweigh it.",
            group=_STORY,
        ),
    ] = None
    shot: Annotated[
        list[str] | None,
        Parameter(
            help='One shot, e.g. "5s: a cat walks"; repeat it for the next ones.',
            group=_STORY,
            negative=(),
        ),
    ] = None


ClipFlagsOf = Annotated[ClipFlags, Parameter(name="*")]
StoryFlagsOf = Annotated[StoryFlags, Parameter(name="*")]
ShotsOf = Annotated[Shots, Parameter(name="*")]


def refuse_own(given: dict[str, Any]) -> None:
    """Raise BadRequest for a field of a request that a chain sets itself."""
    for name, instead in _INSTEAD.items():
        if name in given:
            raise BadRequest(
                f"{option_name(name)} is set by the chain for each clip: {instead}.", field=name
            )


def parts_of(given: dict[str, Any]) -> dict[str, Any]:
    """Return a story's fields from the flags that were given, without shots and request."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name.startswith(HANDOVER):
            found.setdefault("handover", {})[name.removeprefix(HANDOVER)] = value
        elif name in Controls.model_fields:
            found.setdefault("controls", {})[name] = value
        else:
            found[name] = value
    return found
