"""The pictures and videos that a request brings, read once and held as float arrays.

Reading happens here and nowhere else; a chain hands its frames over through the same class, so
they never pass through a file.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest
from vidgen.request import VideoRequest

Fit = Literal["crop", "letterbox", "stretch"]

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Image = NDArray[np.float32]
    Frames = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """What a clip is conditioned on; sRGB float32 in 0..1.

    image, last_image  (rows, columns, 3)
    video              (frames, rows, columns, 3)
    mask               (frames, rows, columns, 3); white is made anew
    references         pictures of things that shall appear
    video_fps          rate of the video, when it came from a file
    """

    image: "Image | None" = None
    last_image: "Image | None" = None
    video: "Frames | None" = None
    mask: "Frames | None" = None
    references: "tuple[Image, ...]" = ()
    video_fps: Fraction | None = None
    adjustments: tuple[Adjustment, ...] = field(default=())

    @property
    def source_size(self) -> tuple[int, int] | None:
        """Width and height of the first input that sets the picture, or None."""
        for picture in (self.image, self.last_image):
            if picture is not None:
                return int(picture.shape[1]), int(picture.shape[0])
        if self.video is not None:
            return int(self.video.shape[2]), int(self.video.shape[1])
        return None


def load_inputs(request: VideoRequest) -> Inputs:
    """Read every file that a request names.

    Raises  NotFound or BadMedia, naming the file
    """
    found: list[Adjustment] = []

    def picture(name: str, source: str) -> "Image":
        from vidgen.media import read_image

        colour = request.alpha_background
        background = (int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16))
        read = read_image(source, background=background)
        found.extend(Adjustment(name, item.asked, item.used, item.why) for item in read.adjustments)
        return read.pixels_hwc

    image = picture("image", request.image) if request.image else None
    last_image = picture("last_image", request.last_image) if request.last_image else None
    references = tuple(picture("reference_images", path) for path in request.reference_images)
    video, rate = _video(request, found)
    mask = _mask(request, 0 if video is None else len(video))
    return Inputs(image, last_image, video, mask, references, rate, tuple(found))


def _video(
    request: VideoRequest, found: list[Adjustment]
) -> "tuple[Frames | None, Fraction | None]":
    """Read the part of the video that the request needs."""
    if request.video is None:
        return None, None
    import numpy as np

    from vidgen.media import probe_video, read_video

    info = probe_video(request.video)
    found.extend(Adjustment("video", item.asked, item.used, item.why) for item in info.assumptions)
    start, stop = 0, request.num_frames
    if request.prefix_frames is not None:
        if request.prefix_frames > info.num_frames:
            raise BadRequest(
                f"prefix_frames={request.prefix_frames} is more than the video has "
                f"({info.num_frames}); give at most {info.num_frames}.",
                field="prefix_frames",
            )
        start, stop = info.num_frames - request.prefix_frames, info.num_frames
    chunks = list(read_video(request.video, start=start, stop=stop))
    return np.concatenate(chunks), info.fps


def _mask(request: VideoRequest, num_frames: int) -> "Frames | None":
    """Read a mask video, or a mask image repeated over the video's frames."""
    if request.mask is None:
        return None
    import numpy as np

    from vidgen.errors import BadMedia
    from vidgen.media import read_image, read_video

    try:
        still = read_image(request.mask).pixels_hwc
    except BadMedia:
        mask = np.concatenate(list(read_video(request.mask, stop=num_frames)))
        if len(mask) < num_frames:
            raise BadRequest(
                f"The mask has {len(mask)} frames, the video {num_frames}; "
                "give as many, or one image.",
                field="mask",
            ) from None
        return mask
    return np.broadcast_to(still, (num_frames, *still.shape))


def fitted(inputs: Inputs, width: int, height: int, fit: Fit) -> Inputs:
    """Return the inputs brought to the size that is generated.

    References keep their own shape: the model places them itself.
    """
    import numpy as np

    from vidgen.media import fit_image

    def one(picture: "Image | None") -> "Image | None":
        return None if picture is None else fit_image(picture, width, height, fit)

    def many(frames: "Frames | None") -> "Frames | None":
        if frames is None:
            return None
        return np.stack([fit_image(frame, width, height, fit) for frame in frames])

    return Inputs(
        one(inputs.image),
        one(inputs.last_image),
        many(inputs.video),
        many(inputs.mask),
        inputs.references,
        inputs.video_fps,
        inputs.adjustments,
    )
