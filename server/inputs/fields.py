"""Which fields of a request or story hold files, and where they are in a payload."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

Wanted = Literal["image", "video", "either"]

# Of VideoRequest, Shot and Story. A test looks at every other text field that they declare.
FILE_FIELDS: dict[str, Wanted] = {
    "image": "image",
    "last_image": "image",
    "reference_images": "image",
    "video": "video",
    "mask": "either",
    "end_image": "image",
}


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in a payload that holds a file's name, e.g. shots.2.image.

    holder, key  the dict or list that has it, and where
    """

    name: str
    wanted: Wanted
    holder: Any
    key: str | int

    @property
    def value(self) -> str:
        """The name that it holds."""
        return str(self.holder[self.key])

    def put(self, value: str) -> None:
        """Write another name into the payload."""
        self.holder[self.key] = value


def slots(payload: dict[str, Any]) -> Iterator[Slot]:
    """Yield each place that holds a file's name in a payload, {"request": ..} or {"story": ..}.

    The video that an extension goes on from is one of them.
    """
    yield from _of(payload.get("request"), "")
    yield from _of(payload.get("extension"), "")
    story = payload.get("story")
    if not isinstance(story, dict):
        return
    yield from _of_story(story)


def _of_story(story: dict[str, Any]) -> Iterator[Slot]:
    yield from _of(story, "")
    yield from _of(story.get("request"), "request.")
    shots = story.get("shots")
    for number, shot in enumerate(shots if isinstance(shots, list) else ()):
        yield from _of(shot, f"shots.{number}.")


def references(payload: dict[str, Any]) -> set[str]:
    """Return all that a payload's file fields hold, those of cards that are not yet made too."""
    later = _of_story(payload.get("later", {}))
    return {slot.value for found in (slots(payload), later) for slot in found}


def ids_of(names: Iterable[str], prefix: str) -> list[str]:
    """Return the ids of the names that begin with "upload:" or "job:", in order."""
    return sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _of(fields: Any, prefix: str) -> Iterator[Slot]:
    """Yield the places in one mapping; what has another type is left to those who parse it."""
    for name, wanted in FILE_FIELDS.items() if isinstance(fields, dict) else ():
        value = fields.get(name)
        if isinstance(value, str):
            yield Slot(f"{prefix}{name}", wanted, fields, name)
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, str):
                    yield Slot(f"{prefix}{name}.{number}", wanted, value, number)
