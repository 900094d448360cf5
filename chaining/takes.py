"""Takes: finished clips on disk, each in a folder that appears whole or not at all.

A take keeps the frames as the model made them (lossless, 16 bits); colours are corrected and joins
made when the video is assembled. What it hands over is kept beside them as exact floats.
"""

# f frames  r rows  w columns  c channels  t latent frames
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chaining.clip_plan import ClipPlan
from chaining.files import file_hash, read_json, write_json
from chaining.maker import Made
from chaining.recolour import Correction
from vidgen.errors import BadMedia, BadRequest, DoesNotFit
from vidgen.media import VideoWriter, read_video
from vidgen.media.disk import part_of, publish, remove, sync_file

Float = npt.NDArray[np.float32]

SCHEMA = 1
FRAMES, LATENTS, HANDED, FEATURES, RECORD = (
    "frames.mkv", "latents.safetensors", "handover.safetensors", "features.npz", "take.json",
)  # fmt: skip
UNFINISHED = "unfinished"  # folder for what the maker has done of a clip
_NAME = re.compile(r"(\d{3,})-(\d+)")
_PART = re.compile(r".+\.[0-9a-f]{8}\.part")  # as part_of names them
_KEPT = re.compile(r"[0-9a-f]+\.safetensors(\.[0-9a-f]{8}\.part)?")


@dataclass(frozen=True, slots=True, eq=False)
class Take:
    """One finished clip.

    first       frame of the video at which its frame 0 stands
    ends        number of its frames that can be shown, from its frame 0 on
    trial       which seed of several it was made with, 0 for the planned one
    seam        how much it stands out from the clip before; None where nothing comes before
    """

    folder: Path
    plan: ClipPlan
    trial: int
    seed: int
    first: int
    ends: int
    seam: float | None
    correction: Correction
    record: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of its folder: clip and take."""
        return self.folder.name

    # Arrays are read at each use: the takes of a long chain hold no frames in memory.
    @property
    def tail_frwc(self) -> Float:
        """Last shown frames as they are handed over, but for their colours; exact floats."""
        return _read_array(self.folder / HANDED, "tail")

    @property
    def head_rwc(self) -> Float:
        """First frame as made; exact floats."""
        return _read_array(self.folder / HANDED, "head")

    @property
    def latents_ctrw(self) -> Float | None:
        """Final latents, None where the maker gave none."""
        if LATENTS not in self.record["files"]:
            return None
        return _read_array(self.folder / LATENTS, "latents")

    def shown(self, start: int, chunk: int = 16) -> Iterator[Float]:
        """Yield its frames from `start` to its end as they are shown, from the lossless file."""
        for frames_frwc in read_video(
            self.folder / FRAMES, start=start, stop=self.ends, chunk=chunk
        ):
            yield self.correction.shown.apply(frames_frwc)

    def all_shown(self) -> Float:
        """Return all that it adds to the video, as shown."""
        return np.concatenate(list(self.shown(self.plan.overlap)))


@dataclass(frozen=True, slots=True, eq=False)
class NewTake:
    """What is known of a clip that was just made; see Take."""

    plan: ClipPlan
    trial: int
    seed: int
    made: Made
    first: int
    ends: int
    seam: float | None
    correction: Correction
    tail_frwc: Float
    noise: float


def save_take(root: Path, new: NewTake, fps: Fraction) -> Take:
    """Write a take under its clip's next free number."""
    number = 1 + max((took for took in _numbers(root, new.plan.index)), default=-1)
    folder = root / f"{new.plan.index:03d}-{number}"
    root.mkdir(parents=True, exist_ok=True)
    part = part_of(folder)
    try:
        part.mkdir()
        _write_files(part, new, fps)
        record = _record(part, new, fps)
        write_json(part / RECORD, record)
        publish(part, folder)
    except BaseException:
        remove(part)
        raise
    return _take(folder, record, new.correction.reference)


def open_take(folder: Path) -> Take:
    """Read a take and compare its files with their hashes.

    Raises  BadMedia, one sentence
    """
    try:
        record = read_json(folder / RECORD, "vidgen_take", SCHEMA)
    except BadMedia as error:
        raise BadMedia(
            f"{error} Make the clip again (remake), or put the file back.", code="damaged_take"
        ) from error
    try:
        files = dict(record["files"])
        held = "matcher" in record["colour"]
        reference_rwc = _read_array(folder / HANDED, "reference") if held else None
        take = _take(folder, record, reference_rwc)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, BadMedia):
            raise
        raise BadMedia(
            f"{folder / RECORD} is damaged ({error!r}); make the clip again (remake), or put the "
            "file back.",
            code="damaged_take",
        ) from error
    for name, wanted in files.items():
        path = folder / name
        if not path.is_file() or file_hash(path) != wanted:
            raise BadMedia(
                f"{path} is missing or not as it was written; make the clip again (remake), or put "
                "the file back.",
                code="damaged_take",
            )
    return take


def takes_of(root: Path, index: int) -> list[Path]:
    """Return the folders of a clip's takes, oldest first."""
    return [root / f"{index:03d}-{number}" for number in sorted(_numbers(root, index))]


def takes_from(root: Path, index: int) -> list[str]:
    """Return the names of all takes of a clip and of later ones, of whatever branch."""
    return sorted(name for name, clip, _ in _found(root) if clip >= index)


def clear_parts(folder: Path) -> None:
    """Delete what a run that was killed left half written in a chain's folder.

    Raises  BadRequest when files of others are where such things are kept, before any is deleted
    """
    for path in (folder / UNFINISHED).glob("*"):
        if _KEPT.fullmatch(path.name) is None:
            raise BadRequest(
                f"{path.parent} holds {path.name!r}, which is of no chain; name another folder.",
                field="folder",
            )
    takes = [path for path in folder.glob("takes/*") if _NAME.fullmatch(path.name)]
    for place in (folder, folder / "takes", *takes):
        for path in place.glob("*.part"):
            if _PART.fullmatch(path.name) is not None:
                remove(path)


def _numbers(root: Path, index: int) -> list[int]:
    return [number for _, clip, number in _found(root) if clip == index]


def _found(root: Path) -> list[tuple[str, int, int]]:
    """Return the name, clip and number of every take."""
    if not root.is_dir():
        return []
    found = [_NAME.fullmatch(path.name) for path in root.iterdir()]
    return [(match[0], int(match[1]), int(match[2])) for match in found if match is not None]


def _write_files(part: Path, new: NewTake, fps: Fraction) -> None:
    frames_frwc, latents_ctrw = new.made.frames_frwc, new.made.latents_ctrw
    rows, columns = frames_frwc.shape[1:3]
    master = VideoWriter(part / FRAMES, width=columns, height=rows, fps=fps, profile="master")
    with master:
        master.write(frames_frwc)
    arrays = {"tail": new.tail_frwc, "head": frames_frwc[0]}
    if new.correction.reference is not None:
        arrays["reference"] = new.correction.reference
    _write_arrays(part / HANDED, arrays)
    if latents_ctrw is not None:
        from vidgen.recipe import recipe_text

        text = {"vidgen": recipe_text(new.made.recipe)} if new.made.recipe else {}
        _write_arrays(part / LATENTS, {"latents": latents_ctrw}, text)


def _record(part: Path, new: NewTake, fps: Fraction) -> dict[str, Any]:
    files = {path.name: file_hash(path) for path in sorted(part.iterdir())}
    return {
        "vidgen_take": SCHEMA,
        "plan": new.plan.as_dict(),
        "prompt": new.plan.prompt,
        "strategy": new.plan.strategy,
        "seed": new.seed,
        "trial": new.trial,
        "first": new.first,
        "ends": new.ends,
        "seam": new.seam,
        "history_noise": new.noise,
        "colour": new.correction.as_dict(),
        "fps": str(fps),
        "seconds": new.made.seconds,
        "recipe": new.made.recipe,
        "pixels_sha256": hashlib.sha256(new.made.frames_frwc.tobytes()).hexdigest(),
        "files": files,
    }


def _take(folder: Path, record: dict[str, Any], reference_rwc: Float | None) -> Take:
    return Take(
        folder=folder,
        plan=ClipPlan.from_dict(record["plan"]),
        trial=record["trial"],
        seed=record["seed"],
        first=record["first"],
        ends=record["ends"],
        seam=record["seam"],
        correction=Correction.from_dict(record["colour"], reference_rwc),
        record=record,
    )


def _write_arrays(path: Path, arrays: dict[str, Float], text: dict[str, str] | None = None) -> None:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    exact = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    try:
        save_file(exact, path, metadata=text)
    except SafetensorError as error:  # it words what the system says of a full disk
        raise DoesNotFit(f"{path} cannot be written ({error}).", field="folder") from error
    sync_file(path)


def _read_array(path: Path, name: str) -> Float:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            array: Float = file.get_tensor(name)
            return array
    except (SafetensorError, OSError) as error:
        raise BadMedia(f"{path} cannot be read ({error}).", code="damaged_take") from error
