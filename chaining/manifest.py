"""Manifest: what a chain's folder says of itself, written anew after every clip.

It names the story, the model and the takes that count. Which takes are finished is said by their
folders: one that was finished just before a crash, and is not named yet, counts as well.
"""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaining.clip_plan import ClipPlan
from chaining.files import read_json, write_json
from chaining.maker import ENVIRONMENT
from chaining.schedule import Schedule
from chaining.story import Story, parse_story
from vidgen.errors import BadMedia, BadRequest
from vidgen.home import expanded

SCHEMA = 1
NAME = "manifest.json"
_BESIDE = {"request": ("format", "crf"), "controls": ("drift_stop", "max_chain")}


@dataclass(frozen=True, slots=True)
class Manifest:
    """One chain.

    identity    of the maker: model, weights, size, rate
    pictures    hash of every picture that the story names
    chosen      take that counts, by clip
    superseded  takes that were made anew or branched away from
    state       running, finished, stopped (cancelled) or failed
    """

    story: dict[str, Any]
    identity: dict[str, Any]
    pictures: dict[str, str]
    schedule: dict[str, Any]
    chosen: dict[str, str] = field(default_factory=dict)
    superseded: tuple[str, ...] = ()
    state: str = "running"

    @property
    def seed(self) -> int:
        """Seed of the chain, also where it was drawn."""
        return int(self.schedule["seed"])

    def parsed_story(self) -> Story:
        """Return the story."""
        return parse_story(self.story)

    def save(self, folder: Path) -> None:
        """Write it into a chain's folder, whole or not at all."""
        write_json(folder / NAME, self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return {
            "vidgen_chain": SCHEMA,
            "state": self.state,
            "story": self.story,
            "identity": self.identity,
            "pictures": self.pictures,
            "chosen": self.chosen,
            "superseded": list(self.superseded),
            "schedule": self.schedule,
        }

    def with_take(self, index: int, name: str) -> "Manifest":
        """Return a copy in which a take counts."""
        return replace(self, chosen={**self.chosen, str(index): name})

    def without(self, names: list[str]) -> "Manifest":
        """Return a copy in which some takes count no more."""
        chosen = {index: name for index, name in self.chosen.items() if name not in names}
        new = [name for name in names if name not in self.superseded]
        return replace(self, chosen=chosen, superseded=(*self.superseded, *new))


def new_manifest(story: Story, identity: dict[str, Any], schedule: Schedule) -> Manifest:
    """Return the manifest of a chain that begins."""
    return Manifest(
        story=story.model_dump(mode="json"),
        identity=identity,
        pictures=_pictures(story),
        schedule=schedule.as_dict(),
    )


def read_manifest(folder: Path) -> Manifest:
    """Read a chain's folder.

    Raises  BadMedia when there is no chain or it is damaged
    """
    if not (folder / NAME).is_file():
        raise BadMedia(f"{folder} holds no chain; make one there without resume.")
    data = read_json(folder / NAME, "vidgen_chain", SCHEMA)
    try:
        return Manifest(
            story=dict(data["story"]),
            identity=dict(data["identity"]),
            pictures=dict(data["pictures"]),
            schedule={
                **data["schedule"],
                "seed": int(data["schedule"]["seed"]),
                "clips": [ClipPlan.from_dict(clip).as_dict() for clip in data["schedule"]["clips"]],
            },
            chosen={str(index): str(name) for index, name in data["chosen"].items()},
            superseded=tuple(str(name) for name in list(data["superseded"])),
            state=str(data["state"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadMedia(f"{folder / NAME} is damaged ({error!r}).") from error


def refuse_changes(old: Manifest, new: Manifest, from_clip: int | None) -> None:
    """Raise BadRequest when a chain would go on as another one than it began.

    from_clip  clips from this one on are made anew, so what only they depend on may differ
    """
    changed = _differences(_of_clips(old.identity), _of_clips(new.identity), "")
    every_clip = bool(changed) or from_clip == 0
    if from_clip is None:
        changed += _differences(_of_clips(old.story), _of_clips(new.story), "")
    if from_clip is not None or not changed:  # the same story may be laid out otherwise now
        pairs = zip(
            old.schedule["clips"][:from_clip], new.schedule["clips"][:from_clip], strict=False
        )
        changed += [
            item
            for number, (before, after) in enumerate(pairs)
            for item in _differences(before, after, f"clip {number} ")
        ]
    kept = None if from_clip is None else _named(new.schedule["clips"][:from_clip])
    changed += [
        f"the content of {path}"
        for path, found in new.pictures.items()
        if old.pictures.get(path, found) != found and (kept is None or path in kept)
    ]
    if changed:
        way_out = "start another folder"
        if not every_clip:
            branch = "branch (from_clip)" if from_clip is None else "branch from an earlier clip"
            way_out = f"{branch}, or {way_out}"
        changed = list(dict.fromkeys(changed))  # a story's request is in its identity too
        shown = "; ".join(changed[:4]) + ("; .." if len(changed) > 4 else "")
        raise BadRequest(f"The chain began otherwise: {shown}; undo that, {way_out}.")


def environment_changes(old: Manifest, new: Manifest) -> list[str]:
    """Return what a chain runs on that is not as it was, where that is known."""
    before, after = (part.identity.get(ENVIRONMENT) for part in (old, new))
    return _differences(before, after, "") if before and after else []


def _of_clips(part: dict[str, Any]) -> dict[str, Any]:
    """Leave out what may differ: how the file is encoded, when to stop, and the environment."""
    found = {key: value for key, value in part.items() if key != ENVIRONMENT}
    for name, beside in _BESIDE.items():
        inner = part.get(name)  # a maker other than the engine's may have none
        if isinstance(inner, dict):
            found[name] = {key: value for key, value in inner.items() if key not in beside}
    return found


def _named(clips: list[dict[str, Any]]) -> set[str]:
    """Return the pictures that clips begin and end with."""
    ends = [clip[name] for clip in clips for name in ("start", "end")]
    return {end["path"] for end in ends if end is not None and end["path"] is not None}


def _differences(old: Any, new: Any, where: str) -> list[str]:
    """Return every leaf that differs as "name: old -> new"."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            item
            for key in dict.fromkeys([*old, *new])
            for item in _differences(old.get(key), new.get(key), f"{where}{key}.")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            item
            for number, (one, two) in enumerate(zip(old, new, strict=True))
            for item in _differences(one, two, f"{where}{number}.")
        ]
    if old == new:
        return []
    return [f"{where.rstrip('.')}: {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = f"{len(value)} of them" if isinstance(value, list | dict) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _pictures(story: Story) -> dict[str, str]:
    named = [
        story.end_image,
        *(path for shot in story.shots for path in (shot.image, shot.last_image)),
    ]
    return {
        path: hashlib.sha256(expanded(path).read_bytes()).hexdigest()
        for path in dict.fromkeys(named)
        if path is not None and not path.startswith("data:") and expanded(path).is_file()
    }
