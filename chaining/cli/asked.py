"""What a command asks of a chain: its story, from flags over a file over the settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaining.cli.story_options import ClipFlags, Shots, StoryFlags, parts_of, refuse_own
from chaining.manifest import read_manifest
from chaining.story import Story, parse_story
from chaining.story_files import is_named_as_story, read_story, story_of_lines
from vidgen.cli.naming import format_of
from vidgen.cli.options import Common, Running, flags_given
from vidgen.cli.paths import with_absolute_paths
from vidgen.cli.place import settings_of
from vidgen.errors import BadRequest
from vidgen.home import expanded
from vidgen.media import read_image
from vidgen.request import parse_request
from vidgen.settings import Settings, outweighed

_OF_SHOTS = ("prompt", "seconds", "image")  # flags of a request that say what a shot is


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for in words.

    shots     prompt, seconds and image, as far as they were given
    parts     strategy, end_image, handover and controls, as far as they were given
    settings  of the clips and of the command
    """

    shots: Mapping[str, Any]
    parts: Mapping[str, Any]
    settings: Settings

    def request(self, under: Mapping[str, Any] | None, out: Path | None) -> dict[str, Any]:
        """Return the fields for every clip, files by absolute paths.

        under  fields of a story's file: over the settings, under the flags
        out    without a format, its suffix decides
        """
        values = self.settings.request()
        if under is not None:
            origins = self.settings.values
            flags = {name: values[name] for name in values if origins[name].origin == "flag"}
            lower = {name: values[name] for name in values if name not in flags}
            values = outweighed(outweighed(lower, under), flags)
        for name in ("prompt", "seed", "seconds"):
            values.pop(name, None)
        meant = None if out is None else format_of(out)
        if "format" not in values and meant is not None:
            values["format"] = meant
        paths = ("model", "loras", "reference_images")
        absolute = with_absolute_paths(
            parse_request(
                {"prompt": "a shot", **{name: values[name] for name in paths if name in values}}
            )
        ).given()
        return values | {name: absolute[name] for name in paths if name in values}

    @property
    def seed(self) -> Any:
        """The seed that was asked for, None if it is to be drawn."""
        return self.settings.request().get("seed")


def gather(
    prompt: str | None, flags: ClipFlags, told: StoryFlags, running: Running, common: Common
) -> Asked:
    """Sort what was given.

    Raises  BadRequest for what a chain sets itself
    """
    given = flags_given(flags)
    refuse_own(given)
    shots = {name: given.pop(name) for name in _OF_SHOTS if name in given}
    if prompt is not None:
        if "prompt" in shots:
            raise BadRequest("PROMPT and --prompt both give the prompt; use one.", field="prompt")
        shots["prompt"] = prompt
    if "image" in shots:
        shots["image"] = absolute(shots["image"])
    parts = parts_of(flags_given(told))
    if "end_image" in parts:
        parts["end_image"] = absolute(parts["end_image"])
    return Asked(shots, parts, settings_of(common, given | running.given()))


def absolute(name: str) -> str:
    """Return the absolute path of a picture; a data URL stays."""
    return name if name.startswith("data:") else str(expanded(name).absolute())


def story_asked(asked: Asked, shots: Shots, out: Path | None) -> Story:
    """Make the story of a new chain from a prompt, shots or a storyboard.

    Raises  BadRequest, BadMedia, NotFound
    """
    ways = {
        "a prompt": "prompt" in asked.shots,
        "--shot": bool(shots.shot),
        "--storyboard": shots.storyboard is not None,
    }
    used = [name for name, there in ways.items() if there]
    if len(used) > 1:
        raise BadRequest(f"{' and '.join(used)} both tell the story; use one.", field="shots")
    if not used:
        raise BadRequest(
            'The story is empty: give a prompt with --seconds, --shot "5s: a cat walks", or '
            "--storyboard FILE.",
            field="shots",
        )
    if "prompt" in asked.shots:
        _refuse_file(str(asked.shots["prompt"]))
    if shots.storyboard is not None:
        base = read_story(shots.storyboard).model_dump(mode="json", exclude_unset=True)
        if "seconds" in asked.shots:
            raise _no_seconds("the storyboard says it for each shot")
        return _merged(asked, base, out)
    if shots.shot:
        if "seconds" in asked.shots:
            raise _no_seconds('write it in each shot: --shot "5s: a cat walks"')
        made = story_of_lines(shots.shot).model_dump(mode="json", exclude_unset=True)
        return _merged(asked, {"shots": made["shots"]}, out)
    return _merged(asked, {"shots": [_only_shot(asked)]}, out)


def story_begun(asked: Asked, folder: Path, out: Path | None) -> Story:
    """Make the story of the chain that a folder holds, with what flags change of it."""
    base = read_manifest(folder).parsed_story().model_dump(mode="json")
    if "seconds" in asked.shots:
        raise _no_seconds("the chain has its length; give its story anew to branch")
    flags = {name: item for name, item in asked.settings.values.items() if item.origin == "flag"}
    only = Asked(asked.shots, asked.parts, Settings(flags))
    return _merged(only, base, out)


def check_pictures(story: Story) -> None:
    """Read every picture that a story names, long before its clip is made.

    Raises  NotFound, BadMedia
    """
    named = [
        story.end_image,
        *(path for shot in story.shots for path in (shot.image, shot.last_image)),
    ]
    for path in dict.fromkeys(named):
        if path is not None:
            read_image(path)


def _no_seconds(instead: str) -> BadRequest:
    return BadRequest(
        f"--seconds is the length of a story of one prompt; {instead}.", field="seconds"
    )


def _refuse_file(prompt: str) -> None:
    """Raise BadRequest for a prompt that is the name of a story's file."""
    try:
        there = is_named_as_story(Path(prompt)) and expanded(prompt).is_file()
    except (OSError, ValueError):
        return  # too long for a name, or with characters that none has: a text
    if there:
        raise BadRequest(
            f"The prompt {prompt} is a file; give a story's file with --storyboard {prompt}.",
            field="prompt",
        )


def _only_shot(asked: Asked) -> dict[str, Any]:
    seconds = asked.shots.get("seconds", asked.settings.request().get("seconds"))
    if seconds is None:
        raise BadRequest(
            "A chain needs its length: give --seconds, e.g. --seconds 20.", field="seconds"
        )
    return {"prompt": asked.shots["prompt"], "seconds": seconds}


def _merged(asked: Asked, base: Mapping[str, Any], out: Path | None) -> Story:
    """Lay what was asked for over a story's data."""
    data = {**base, "request": asked.request(base.get("request"), out)}
    for name, value in asked.parts.items():
        below = data.get(name)
        data[name] = {**below, **value} if isinstance(below, dict) else value
    if asked.seed is not None:
        data["seed"] = asked.seed
    if "image" in asked.shots:
        first, *others = data["shots"]
        data["shots"] = [{**first, "image": asked.shots["image"]}, *others]
    return parse_story(data)
