"""One finishing job: what is to be made, in which words ffmpeg is told, and how the result is
checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest, VidgenError
from vidgen.media.disk import sync_file
from vidgen.media.profiles import PROFILES, Profile, choose_crf, find_profile
from vidgen.media.recipe import Tags, add_gif_comment, write_folder_facts
from vidgen.media.video_read import VideoInfo, probe_video

# Words that ffmpeg would also take for the sound.
_STREAM_WORDS = {"b": "b:v", "profile": "profile:v"}
SILENT = ("png", "gif")
_AUDIO_CODECS = {"webm": ("libopus", "160k"), "master": ("flac", None)}


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished file: what it holds, and what could not be done as asked."""

    path: Path
    profile: str
    width: int
    height: int
    fps: Fraction
    num_frames: int
    adjustments: tuple[Adjustment, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One command line in the making."""

    target: Path
    profile: Profile
    width: int
    height: int
    fps: Fraction
    num_frames: int
    crf: int | None
    tags: Tags
    deep: bool
    is_variable: bool


def profile_for(target: Path, name: str | None, codec: str | None = None) -> Profile:
    """The profile that is named, or else the one that the suffix means (.mp4 of H.265 stays
    H.265).
    """
    if name is None and target.suffix.lower() == ".mp4" and codec == "hevc":
        name = "mp4-10"
    if name is not None:
        row = find_profile(name)
    else:
        rows = [row for row in PROFILES.values() if row.suffix == target.suffix.lower()]
        if not rows:
            known = ", ".join(sorted({row.suffix for row in PROFILES.values() if row.suffix}))
            raise BadRequest(
                f"{target.name} must end in one of {known}, or name a profile.", field="profile"
            )
        row = rows[0]
    if row.suffix and target.suffix.lower() != row.suffix:
        raise BadRequest(f"{target.name} must end in {row.suffix} for {row.name}.", field="profile")
    return row


def check_one_gamut(infos: Sequence[VideoInfo]) -> None:
    """Refuse to mix wide and ordinary colours in one picture."""
    if len({info.matrix == "bt2020" for info in infos}) > 1:
        raise BadRequest("Clips of bt709 and bt2020 colours cannot be put together; convert one.")


def frame_range(info: VideoInfo, trim: tuple[float, float | None] | None) -> tuple[int, int]:
    """The first frame and the one behind the last, from seconds rounded to the nearest frame."""
    if trim is None:
        return 0, info.num_frames
    first = round(trim[0] * info.fps)
    last = info.num_frames if trim[1] is None else round(trim[1] * info.fps)
    if trim[0] < (info.num_frames / info.fps if trim[1] is None else trim[1]) and first == last:
        raise BadRequest(
            f"trim={trim[0]}..{trim[1]} holds no frame of the clip's {info.fps} a second.",
            field="trim",
        )
    if not 0 <= first < last <= info.num_frames:
        raise BadRequest(
            f"trim={trim[0]}..{trim[1]} is outside the clip's 0..{info.duration_seconds:.3f} s.",
            field="trim",
        )
    return first, last


def seal(job: Job, part: Path) -> int:
    """Count the frames, add what ffmpeg cannot, and put all on disk; a wrong count is an error."""
    if part.is_dir():
        count = len(list(part.glob("frame_*.png")))
        write_folder_facts(part, job.fps, count, job.tags)
    else:
        if job.profile.name == "gif":
            add_gif_comment(part, job.tags["vidgen"])
        count = probe_video(part).num_frames
        sync_file(part)
    if count != job.num_frames and not job.is_variable:
        raise VidgenError(f"{job.target.name} has {count} frames instead of {job.num_frames}.")
    return count


def container_options(row: Profile) -> dict[str, Any]:
    """ffmpeg's options for the file format."""
    options: dict[str, Any] = {"f": row.container or "image2"}
    if not row.suffix:
        options["start_number"] = 0
    if row.container in ("mp4", "mov"):
        options["movflags"] = "+faststart+use_metadata_tags"
    return options


def picture_options(job: Job) -> dict[str, Any]:
    """ffmpeg's options for encoding the pictures."""
    row = job.profile
    options: dict[str, Any] = {"c:v": row.codec, "fps_mode": "passthrough"}
    words = row.encoder_options(job.width, job.height).items()
    options |= {_STREAM_WORDS.get(key, key): value for key, value in words}
    if row.suffix and row.name != "gif":
        options["g"] = 1 if row.intra else max(1, int(2 * job.fps))
    crf = choose_crf(row, job.crf)
    if crf is not None:
        options["crf"] = crf
    if row.tag is not None:
        options["tag:v"] = row.tag
    return options


def sound_options(row: Profile, has_sound: bool) -> dict[str, Any]:
    """ffmpeg's options for encoding the sound, if there is any."""
    if not has_sound:
        return {}
    codec, rate = _AUDIO_CODECS.get(row.name, ("aac", "192k"))
    return {"c:a": codec} | ({} if rate is None else {"b:a": rate})
