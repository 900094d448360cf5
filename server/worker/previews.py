"""Previews: a running clip as a small moving picture."""

# f frames  r rows  w columns  c channels
import io

import numpy as np
import numpy.typing as npt

SIDE = 256
FRAMES = 16
FRAME_MS = 200


def moving_picture(frames_frwc: npt.NDArray[np.uint8]) -> bytes:
    """Return an animated WebP of at most 16 frames whose longer side has about 256 pixels."""
    from PIL import Image

    picks = np.unique(np.linspace(0, len(frames_frwc) - 1, FRAMES).round().astype(int))
    rows, columns = frames_frwc.shape[1:3]
    scale = max(1, SIDE // max(rows, columns))
    pictures = [
        Image.fromarray(frames_frwc[pick]).resize(
            (columns * scale, rows * scale), Image.Resampling.BICUBIC
        )
        for pick in picks
    ]
    buffer = io.BytesIO()
    pictures[0].save(
        buffer,
        "webp",
        save_all=True,
        append_images=pictures[1:],
        duration=FRAME_MS,
        loop=0,
        quality=60,
        method=0,
    )
    return buffer.getvalue()
