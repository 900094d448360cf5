"""The pictures and videos that a request brings, held as float arrays or as files to be read.

Pictures are read at once. A video is only probed: its frames are read when the size of the clip is
known, so that a long file costs no memory. A chain hands its frames over as arrays in the same
class, so they never pass through a file.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest
from vidgen.request import VideoRequest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vidgen.media.fit import Fit

    Image = NDArray[np.float32]
    Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class VideoFile:
    """A part of a video file: frames start to stop, at the file's own size."""

    path: str
    start: int
    stop: int
    width: int
    height: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What a clip is conditioned on; sRGB float32 in 0..1.

    image, last_image  (rows, columns, 3)
    video              (frames, rows, columns, 3), or a file
    mask               the same; white is made anew
    references         pictures of things that shall appear
    prefix_latents     (channels, latent frames, rows, columns): what the last frames of the video
                       were decoded from, used instead of encoding them; normalised, any range
    video_fps          rate of the video, when it came from a file
    Raises             BadRequest for an array of another shape, type or range
    """

    image: "Image | None" = None
    last_image: "Image | None" = None
    video: "Frames | VideoFile | None" = None
    mask: "Frames | VideoFile | None" = None
    references: "tuple[Image, ...]" = ()
    video_fps: Fraction | None = None
    adjustments: tuple[Adjustment, ...] = field(default=())
    prefix_latents: "NDArray[np.float32] | None" = None

    def __post_init__(self) -> None:
        """Look at the arrays, which a library's user may have made in any way."""
        for name, picture in (("image", self.image), ("last_image", self.last_image)):
            if picture is not None:
                _check_array(name, picture, "rows, columns, 3")
        for name, frames in (("video", self.video), ("mask", self.mask)):
            if frames is not None and not isinstance(frames, VideoFile):
                _check_array(name, frames, "frames, rows, columns, 3")
        for picture in self.references:
            _check_array("reference_images", picture, "rows, columns, 3")
        if self.video is not None and self.mask is not None and len(self.mask) < len(self.video):
            raise _short_mask(len(self.mask), len(self.video))

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Width and height of every input that fills the picture, by field."""
        found = {}
        for name in ("image", "last_image"):
            picture = getattr(self, name)
            if picture is not None:
                found[name] = (int(picture.shape[1]), int(picture.shape[0]))
        for name in ("video", "mask"):
            frames = getattr(self, name)
            if isinstance(frames, VideoFile):
                found[name] = (frames.width, frames.height)
            elif frames is not None:
                found[name] = (int(frames.shape[2]), int(frames.shape[1]))
        return found

    @property
    def video_frames(self) -> int:
        """Frames of the video, 0 without one."""
        return 0 if self.video is None else len(self.video)

    def frames(self) -> "Frames | None":
        """Return the video's frames, which `fitted` has read."""
        assert not isinstance(self.video, VideoFile)
        return self.video

    def mask_frames(self) -> "Frames | None":
        """Return the mask's frames, which `fitted` has read."""
        assert not isinstance(self.mask, VideoFile)
        return self.mask


def _check_array(name: str, array: object, shape: str) -> None:
    import numpy as np

    if not isinstance(array, np.ndarray):
        raise BadRequest(
            f"{name} is a {type(array).__name__}; give a numpy array ({shape}) of float32.",
            field=name,
        )
    dims = shape.count(",") + 1
    if array.dtype == np.float32 and array.ndim == dims and array.shape[-1] == 3 and array.size:
        one = array[:1] if array.strides[0] == 0 else array  # a still that stands for all frames
        low, high = float(one.min()), float(one.max())
        if low >= 0 and high <= 1:
            return
        found = f"values from {low:g} to {high:g}"
    else:
        found = f"{array.dtype} of shape {array.shape}"
    raise BadRequest(
        f"{name} holds {found}; give float32 ({shape}) with values from 0 to 1.", field=name
    )


def _short_mask(frames: int, wanted: int) -> BadRequest:
    return BadRequest(
        f"The mask has {frames} frames, the video {wanted}; give as many, or one picture.",
        field="mask",
    )


def load_inputs(request: VideoRequest) -> Inputs:
    """Read the pictures that a request names and look at its videos.

    Raises  NotFound or BadMedia, naming the file
    """
    found: list[Adjustment] = []

    def picture(name: str, source: str) -> "Image":
        from vidgen.media import read_image

        colour = request.alpha_background
        background = (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
        read = read_image(source, background=background)
        found.extend(replace(item, field=name) for item in read.adjustments)
        return read.pixels_hwc

    image = picture("image", request.image) if request.image else None
    last_image = picture("last_image", request.last_image) if request.last_image else None
    references = tuple(picture("reference_images", path) for path in request.reference_images)
    video, rate = _video(request, found)
    mask: Image | Frames | VideoFile | None = None
    if request.mask is not None and video is not None:
        mask = _mask_video(request.mask, len(video), found)
        if mask is None:
            import numpy as np

            still = picture("mask", request.mask)
            mask = np.broadcast_to(still, (len(video), *still.shape))
    return Inputs(image, last_image, video, mask, references, rate, tuple(found))


def _video(
    request: VideoRequest, found: list[Adjustment]
) -> tuple[VideoFile | None, Fraction | None]:
    """Look at the part of the video that the request needs."""
    if request.video is None:
        return None, None
    from vidgen.media import probe_video

    info = probe_video(request.video)
    found.extend(replace(item, field="video") for item in info.assumptions)
    start = 0
    if request.prefix_frames is not None:
        if request.prefix_frames > info.num_frames:
            raise BadRequest(
                f"prefix_frames={request.prefix_frames} is more than the video has "
                f"({info.num_frames}); give at most {info.num_frames}.",
                field="prefix_frames",
            )
        start = info.num_frames - request.prefix_frames
    part = VideoFile(request.video, start, info.num_frames, info.width, info.height)
    return part, info.fps


def _mask_video(path: str, num_frames: int, found: list[Adjustment]) -> VideoFile | None:
    """Look at a mask with more than one frame; None for a still picture."""
    from vidgen.errors import BadMedia
    from vidgen.media import probe_video

    try:
        info = probe_video(path)
    except BadMedia:
        return None
    if info.num_frames == 1:
        return None
    found.extend(replace(item, field="mask") for item in info.assumptions)
    if info.num_frames < num_frames:
        raise _short_mask(info.num_frames, num_frames)
    return VideoFile(path, 0, num_frames, info.width, info.height)


def fitted(
    inputs: Inputs,
    width: int,
    height: int,
    fit: "Fit",
    num_frames: int,
    prefix_frames: int | None = None,
) -> Inputs:
    """Return the inputs as arrays of the size that is generated.

    num_frames     the clip's; frames of a longer video are not read
    prefix_frames  of a video in memory only so many at its end count; a file is opened there
    References keep their own shape: the model places them itself.
    """
    from vidgen.media import fit_image

    def one(picture: "Image | None") -> "Image | None":
        return None if picture is None else fit_image(picture, width, height, fit)

    def many(frames: "Frames | VideoFile | None") -> "Frames | None":
        if frames is None:
            return None
        import numpy as np

        return np.stack(
            [fit_image(frame, width, height, fit) for frame in _frames(frames, num_frames)]
        )

    video = inputs.video
    if prefix_frames is not None and video is not None and not isinstance(video, VideoFile):
        video = video[-prefix_frames:]
    return replace(
        inputs,
        image=one(inputs.image),
        last_image=one(inputs.last_image),
        video=many(video),
        mask=many(inputs.mask),
    )


def _frames(video: "Frames | VideoFile", num_frames: int) -> "Iterator[Image]":
    """Yield at most so many frames, a few in memory at a time."""
    if not isinstance(video, VideoFile):
        yield from video[:num_frames]
        return
    from vidgen.media import read_video

    stop = min(video.stop, video.start + num_frames)
    for chunk in read_video(video.path, start=video.start, stop=stop):
        yield from chunk


def hashes(inputs: Inputs) -> dict[str, str]:
    """Return a hash of each input that `fitted` has made, by which a repeat is judged."""
    arrays = {
        "image": inputs.image,
        "last_image": inputs.last_image,
        "video": inputs.frames(),
        "mask": inputs.mask_frames(),
        "prefix_latents": inputs.prefix_latents,
        **{f"reference_{i}": picture for i, picture in enumerate(inputs.references)},
    }
    return {
        name: hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest()
        for name, array in arrays.items()
        if array is not None
    }
