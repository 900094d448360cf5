"""Writing an extended video: the original's frames, the new ones, and the sound, as one file."""

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaining.extend import Extended
from chaining.sound import add_sound, holds_sound, write_sound
from vidgen.media import VideoWriter
from vidgen.media.disk import check_folder
from vidgen.recipe import recipe_text


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file is written; profile is a key of vidgen.media's PROFILES."""

    profile: str
    crf: int | None


def write_extended(
    extended: Extended, path: Path, how: Encoding, *, join: str, recipe: dict[str, Any], title: str
) -> Fraction | None:
    """Write the file, whole or not at all; return from which second on it is silent.

    join    cut, linear or ease, for frames that two new clips have both
    Returns None where the original has no sound, or the format holds none
    Raises  BadRequest, BadMedia, DoesNotFit
    """
    info = extended.original.info
    text = recipe_text(recipe)
    with_sound = info.has_audio and holds_sound(how.profile)
    folder = path.absolute().parent
    check_folder(folder)
    with tempfile.TemporaryDirectory(prefix=".vidgen-extend-", dir=folder) as spare:
        pictures = Path(spare, f"pictures{path.suffix}") if with_sound else path
        writer = VideoWriter(
            pictures, width=info.width, height=info.height, fps=info.fps, profile=how.profile,
            crf=how.crf, recipe=text, title=title,
        )  # fmt: skip
        with writer:
            for frames_frwc in extended.frames(join):
                writer.write(frames_frwc)
        if with_sound:
            kept, total = (count / info.fps for count in (extended.kept, extended.num_frames))
            track = Path(spare, "sound.wav")
            write_sound(extended.original.path, track, kept, total)
            add_sound(pictures, track, path, profile=how.profile, recipe=text, title=title)
    return extended.kept / info.fps if with_sound else None
