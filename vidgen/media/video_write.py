"""Writing a clip: frames stream in, one file (or folder) appears whole at its name, or nothing
does.
"""

# f frames  h rows  w columns  c red, green, blue
import errno
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from vidgen.errors import BadOutput, BadRequest, DoesNotFit, VidgenError
from vidgen.media.disk import check_target, part_of, publish, remove
from vidgen.media.profiles import PROFILES, Profile, check_size, choose_crf, find_profile
from vidgen.media.recipe import make_tags
from vidgen.media.sinks import FileSink, Frame, GifSink, PngSink, Sink

__all__ = ["PROFILES", "VideoWriter"]


class VideoWriter:
    """Streams frames into one file; used as a context manager.

    On leaving the block the file is finished and takes its name at once (`name.*.part`, fsync,
    rename); when the block raises, no file is left and an earlier file of that name is untouched.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        width: int,
        height: int,
        fps: Fraction,
        profile: str = "mp4",
        crf: int | None = None,
        recipe: str | None = None,
        title: str | None = None,
        crop: tuple[int, int] | None = None,
    ) -> None:
        """Check everything that can be checked before the first frame; no file is made yet.

        width, height  of the frames that `write` gets
        fps            exact, e.g. Fraction(24000, 1001)
        profile        a key of PROFILES; the path must carry its suffix (png writes a folder)
        crf            quality of mp4, mp4-10 and webm, smaller is better; None = the profile's own
        recipe         a JSON object as text; travels in the file, see `read_recipe`
        crop           (width, height) of the file if smaller than the frames; the centre is kept
        Raises         BadRequest
        """
        row = find_profile(profile)
        self.path = Path(path)
        self.profile: Profile = row
        self.fps = _check_rate(fps)
        self.num_frames = 0
        self._frame_size = (width, height)
        self.width, self.height = _check_crop((width, height), crop)
        check_size(row, self.width, self.height)
        _check_suffix(self.path, row)
        self._crf = choose_crf(row, crf)
        self._tags = make_tags(recipe, title)
        check_target(self.path, is_folder=not row.suffix)
        self._part = part_of(self.path)
        self._sink: Sink | None = None
        self._started = False
        self._dtype: np.dtype[Any] | None = None
        self._done = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def write(self, frames_fhwc: Frame) -> None:
        """Append frames (f, h, w, 3): float 0..1, uint8 or uint16 (full range).

        Floats outside 0..1 are clipped, as no codec holds them. The first call decides between
        8-bit and deep files where the profile has both (master, png), so all calls must use one
        dtype.
        Raises  BadOutput (a value that is not finite), BadRequest (shape, dtype), DoesNotFit (disk
                full)
        """
        if self._done:
            raise BadRequest(f"{self.path.name} is already closed; open another writer.")
        self._check_frames(frames_fhwc)
        try:
            if self._sink is None:
                self._started = True
                self._sink = self._open(deep=frames_fhwc.dtype != np.uint8)
            for frame_hwc in frames_fhwc:
                _check_finite(frame_hwc, self.num_frames)
                self._sink.write(_crop_centre(frame_hwc, self.width, self.height))
                self.num_frames += 1
        except BaseException as error:
            self.abort()
            explained = _explain(error, self.path)
            if explained is None:
                raise
            raise explained from error

    def close(self) -> None:
        """Finish the file and give it its name; calling it again does nothing.

        Raises  BadRequest if no frame was written, DoesNotFit if the disk is full
        """
        if self._done:
            return
        if self._sink is None:
            self.abort()
            raise BadRequest(
                f"No frame was written to {self.path.name}; a clip needs at least one."
            )
        try:
            self._sink.close()
            publish(self._part, self.path)
        except BaseException as error:
            self.abort()
            explained = _explain(error, self.path)
            if explained is None:
                raise
            raise explained from error
        self._done = True

    def abort(self) -> None:
        """Throw away what was written; a finished file and an earlier one of that name stay."""
        if self._done:
            return
        self._done = True
        if not self._started:
            return
        from av import FFmpegError

        try:
            if self._sink is not None:
                self._sink.abort()
        except (OSError, FFmpegError):
            pass  # on a full disk closing fails as writing did; the part goes anyway
        finally:
            remove(self._part)

    def _open(self, *, deep: bool) -> Sink:
        size = (self.width, self.height)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remove(self._part)
        if self.profile.name == "png":
            return PngSink(self._part, size, self.fps, deep, self._tags)
        if self.profile.name == "gif":
            return GifSink(self._part, size, self.fps, self._tags)
        return FileSink(self._part, self.profile, size, self.fps, self._crf, deep, self._tags)

    def _check_frames(self, frames: Frame) -> None:
        width, height = self._frame_size
        if frames.ndim != 4 or frames.shape[1:] != (height, width, 3):
            raise BadRequest(
                f"Frames have the shape {frames.shape}, not (frames, {height}, {width}, 3)."
            )
        if frames.dtype.kind != "f" and frames.dtype not in (np.uint8, np.uint16):
            raise BadRequest(f"Frames are {frames.dtype}; use float32 in 0..1, uint8 or uint16.")
        if self._dtype is None:
            self._dtype = frames.dtype
        if frames.dtype != self._dtype:
            raise BadRequest(
                f"Frames are {frames.dtype} after {self._dtype}; use one kind per clip."
            )


def _explain(error: BaseException, path: Path) -> VidgenError | None:
    """Say a failure of the disk or of the encoder in one sentence; None for any other error."""
    from av import FFmpegError

    if not isinstance(error, (OSError, FFmpegError)):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DoesNotFit(
            f"The disk is full while writing {path.name}; free space and decode again."
        )
    if error.errno == errno.EFBIG:
        return DoesNotFit(
            f"{path.name} grew beyond the largest file that {path.parent} or this process may "
            "hold; write elsewhere, raise the limit (ulimit -f), or make a shorter or smaller clip."
        )
    reason = error.strerror or str(error)
    return VidgenError(f"{path.name} could not be written: {reason}.", code="write_failed")


def _check_finite(frame: Frame, index: int) -> None:
    if frame.dtype.kind == "f" and not np.isfinite(frame).all():
        raise BadOutput(f"Frame {index} holds values that are not finite.", code="nan_frames")


def _crop_centre(frame: Frame, width: int, height: int) -> Frame:
    top, left = (frame.shape[0] - height) // 2, (frame.shape[1] - width) // 2
    return frame[top : top + height, left : left + width]


def _check_crop(size: tuple[int, int], crop: tuple[int, int] | None) -> tuple[int, int]:
    if crop is None:
        return size
    if crop[0] > size[0] or crop[1] > size[1]:
        raise BadRequest(
            f"crop={crop[0]}x{crop[1]} is larger than the frames; use {size[0]}x{size[1]} or less.",
            field="crop",
        )
    return crop


def _check_rate(fps: Fraction) -> Fraction:
    fps = Fraction(fps)
    if not 0 < fps <= 1000:
        raise BadRequest(
            f"fps={fps} is outside 0..1000; use for example 16 or 24000/1001.", field="fps"
        )
    if max(fps.numerator, fps.denominator) > 1_000_000:
        near = fps.limit_denominator(1001)
        raise BadRequest(f"fps={fps} is too fine for a file; use {near}.", field="fps")
    return fps


def _check_suffix(path: Path, profile: Profile) -> None:
    if path.suffix.lower() == profile.suffix or not profile.suffix:
        return
    raise BadRequest(
        f"{path.name} does not end in {profile.suffix}, which the profile {profile.name} writes; "
        f"use {path.stem}{profile.suffix}.",
        field="profile",
    )
