"""What `vidgen extend` will do, decided before anything is loaded."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaining.cli.asked import Asked, check_pictures
from chaining.cli.cost import chain_cost
from chaining.cli.work import Work, refuse_strict, schedule_of, seed_held
from chaining.engine_maker import first_plan
from chaining.extend import Original, adjustments
from chaining.extend_write import Encoding
from chaining.files import LOCK, locked
from chaining.lengths import Lengths
from chaining.manifest import NAME
from chaining.schedule import Schedule
from chaining.story import Story, parse_story
from vidgen.adjustment import Adjustment
from vidgen.cli.naming import format_of
from vidgen.device import DeviceProfile
from vidgen.errors import BadRequest, Unsupported
from vidgen.media import PROFILES, VideoWriter, read_recipe, save_image
from vidgen.media.filters import is_deep
from vidgen.media.profiles import check_size
from vidgen.models import DEFAULT_MODEL, Model, resolve
from vidgen.plan import Plan
from vidgen.sizing import legal_size, same_area

START = "start.png"  # the frame that is gone on from, in the chain's folder
_SET = {
    "fps": "the new part has the file's rate",
    "fit": "frames are stretched to the model's size and back, so that nothing is cut off",
    "aspect": "--size says what the model makes",
    "image": "the video's own frame is the first picture",
}


@dataclass(frozen=True, slots=True)
class Extension:
    """All decided: the chain whose first clip is the video's end, and the file.

    adjustments  what differs from the file, and from what was asked
    """

    original: Original
    work: Work
    encoding: Encoding
    adjustments: tuple[Adjustment, ...]

    @property
    def num_frames(self) -> int:
        """Frames of the whole file."""
        schedule = self.work.schedule
        return self.original.kept + schedule.num_frames - schedule.clips[0].stop


def refuse_set(asked: Asked) -> None:
    """Raise BadRequest for what the file decides."""
    values = asked.settings.values
    flags = {*asked.shots, *(name for name in values if values[name].origin == "flag")}
    for name, why in _SET.items():
        if name in flags:
            raise BadRequest(f"--{name} does not go with extend: {why}.", field=name)
    if asked.parts.get("strategy") == "last_latent":
        raise Unsupported(
            "Strategy last_latent hands latents over and a video has none; use last_frame or "
            "overlap.",
            field="strategy",
        )


def encoding_of(
    original: Original, out: Path | None, asked: Asked
) -> tuple[Encoding, tuple[Adjustment, ...]]:
    """Choose how the file is written: as asked, by its suffix, or as its size and depth allow."""
    given = asked.settings.request()
    info = original.info
    profile = given.get("format") or (None if out is None else format_of(out))
    crf = given.get("crf")
    crf = None if crf is None else int(crf)
    if profile is not None:
        return Encoding(str(profile), crf), ()
    if info.width % 2 or info.height % 2:
        why = f"mp4 holds no odd size, and the file is {info.width}x{info.height}"
        return Encoding("webm", crf), (Adjustment("format", "mp4", "webm", why),)
    if not is_deep(info):
        return Encoding("mp4", crf), ()
    try:
        check_size(PROFILES["mp4-10"], info.width, info.height)
    except BadRequest:
        why = f"mp4-10 holds no {info.width}x{info.height}"
        return Encoding("mp4", crf), (Adjustment("format", "mp4-10", "mp4", why),)
    return Encoding("mp4-10", crf), ()


def file_beside(file: Path, profile: str) -> Path:
    """Return a name beside the file that nothing has yet."""
    suffix, number = PROFILES[profile].suffix, 1
    path = file.with_name(f"{file.stem}-extended{suffix}")
    while path.exists():
        number += 1
        path = file.with_name(f"{file.stem}-extended-{number}{suffix}")
    return path


def check_file(original: Original, how: Encoding, output: Path) -> None:
    """Raise BadRequest now for a file that could not be written at the end."""
    refuse_itself(original, output)
    info = original.info
    VideoWriter(
        output, width=info.width, height=info.height, fps=info.fps, profile=how.profile,
        crf=how.crf,
    )  # fmt: skip


def refuse_itself(original: Original, output: Path) -> None:
    """Raise BadRequest for an output that is the video itself: going on later needs it."""
    if output.exists() and output.samefile(original.path):
        raise BadRequest(f"{output} is the video itself; give another --out.", field="out")


def decide(
    story: Story,
    original: Original,
    encoding: Encoding,
    found: tuple[Adjustment, ...],
    device: DeviceProfile,
    place: tuple[Path, Path],
    again: tuple[str, ...],
    *,
    resume: bool,
    dry_run: bool,
) -> Extension:
    """Decide every clip.

    story  of the new part, or when it goes on the whole one
    found  adjustments so far
    place  the file, and the folder of the chain; the frame to go on from is written there
    Raises BadRequest, Unsupported, Busy, DoesNotFit
    """
    output, folder = place
    model = resolve(story.request.get("model", DEFAULT_MODEL))
    with _room(folder, dry_run=dry_run) as room:
        if story.shots[0].prompt != original.prompt:
            start = _write_start(original, room, resume=resume)
            size = _size(original, model, story.request)
            story = _whole_story(story, original, start, size, encoding)
        check_pictures(story)
        first = first_plan(story, device, model)
        schedule = schedule_of(story, first, seed_held(folder) if resume else None)
        made = replace(schedule, clips=schedule.clips[1:])
        cost = chain_cost(story, made, first, device)
        items = _told(original, encoding, found, first, schedule)
        refuse_strict(story, items)
    story = story.model_copy(update={"seed": schedule.seed})
    work = Work(story, first, schedule, cost, folder, output, again, given=1)
    return Extension(original, work, encoding, items)


def _told(
    original: Original,
    encoding: Encoding,
    found: tuple[Adjustment, ...],
    first: Plan,
    schedule: Schedule,
) -> tuple[Adjustment, ...]:
    """Return all that differs, each thing once."""
    made_at = (first.size.width, first.size.height)
    own_rate = Fraction(first.model.recipe.fps)
    return (
        *found,
        *adjustments(original, made_at, own_rate, encoding.profile),
        *(item for item in first.adjustments if item.field not in ("image", "fps")),
        *(_renamed(item) for item in schedule.adjustments),
    )


def _renamed(item: Adjustment) -> Adjustment:
    """Count shots as the user does: the video's end is none of them."""
    parts = item.field.split(".")
    if parts[0] != "shots":
        return item
    return replace(item, field=".".join(["shots", str(int(parts[1]) - 1), *parts[2:]]))


@contextmanager
def _room(folder: Path, *, dry_run: bool) -> Iterator[Path]:
    """Give the folder in which the frame to go on from is written, held while all is decided.

    Where nothing comes of it, what was put there goes again, and no file of another run.
    Raises  Busy, DoesNotFit
    """
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="vidgen-") as spare:
            yield Path(spare)
        return
    there = folder.exists()
    with locked(folder):
        had = {path.name for path in folder.iterdir()}
        try:
            yield folder
        except BaseException:
            if not there:
                _clear(folder, had)
            raise


def _clear(folder: Path, had: set[str]) -> None:
    """Remove a folder with our frame and lock in it; one that another run has begun stays."""
    if START not in had:
        (folder / START).unlink(missing_ok=True)
    if [path.name for path in folder.iterdir()] == [LOCK]:
        (folder / LOCK).unlink()
        folder.rmdir()


def _write_start(original: Original, folder: Path, *, resume: bool) -> Path:
    """Write the frame to go on from, at 16 bits a colour; one that is there stays."""
    if (folder / NAME).is_file() and not resume:
        raise BadRequest(
            f"{folder} holds a chain already; go on with --resume, or name another --folder.",
            field="folder",
        )
    start = folder.absolute() / START
    if not start.exists():
        save_image(start, original.last_frame(), deep=True)
    return start


def _size(original: Original, model: Model, request: dict[str, Any]) -> tuple[int, int]:
    """Return the size that is generated: as asked, as the file was made, or of its shape."""
    info, family = original.info, model.family
    if "width" in request and "height" in request:
        return request["width"], request["height"]
    if "width" in request or "height" in request:
        raise BadRequest("extend needs both sides of the model's size: give --size.", field="width")
    if _made_by(original.path) == model.name:
        size, _ = legal_size(info.width, info.height, family, even=False)
        return size.width, size.height
    area = model.recipe.width * model.recipe.height
    return same_area(info.width, info.height, area, family)


def _made_by(path: Path) -> str | None:
    """Return the model that made a file of ours."""
    recipe = json.loads(read_recipe(path) or "{}")
    about = recipe.get("identity") or recipe.get("plan") or {}
    return about.get("model") if isinstance(about, dict) else None


def _whole_story(
    new: Story, original: Original, start: Path, size: tuple[int, int], encoding: Encoding
) -> Story:
    """Return the story whose first shot is the video's end."""
    data = new.model_dump(mode="json", exclude_unset=True)
    first, *others = data["shots"]
    if first.get("transition") not in (None, "continue"):
        raise BadRequest(
            f"The first shot continues {original.path.name}; leave its transition out.",
            field="shots",
        )
    data["request"] |= {
        "width": size[0],
        "height": size[1],
        "fit": "stretch",
        "fps": str(original.info.fps),
        "format": encoding.profile,
    }
    model = resolve(data["request"].get("model", DEFAULT_MODEL))
    most = data["request"].get("num_frames", model.recipe.num_frames)
    count = original.num_opening(Lengths.of(model.family, most))
    opening = {
        "prompt": original.prompt,
        "seconds": float(count / original.info.fps),
        "image": str(start),
        "strategy": "single",
    }
    return parse_story({**data, "shots": [opening, {**first, "transition": "continue"}, *others]})
