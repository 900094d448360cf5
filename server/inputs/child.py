"""The process that opens clients' pictures and videos, under limits and apart from the API.

It says "ready", then reads one JSON object a line (path, name, max_pixels) and answers each by a
line: {"facts": ..} or {"refused": code, "message": ..}, and with "last" whether it ends after it.
"""

import json
import resource
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

from PIL import Image, UnidentifiedImageError

from server.inputs.sniff import HEAD, sniff
from vidgen.errors import BadMedia, VidgenError
from vidgen.media import read_recipe
from vidgen.media.image import check_pixels, read_image
from vidgen.media.video_read import probe_video

MAX_LOOKS = 500
MOST_RECIPE = 1 << 18  # letters
_GROWN_BYTES = 512 << 20
_ORIENTATION = 0x0112  # of EXIF; 5 to 8 lie on their side
_WITH_RECIPE = ("image/png", "image/gif")  # of the pictures
_HEIF = ("image/heic", "image/heif")
_OF_TYPE = {
    "image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF",
    "image/bmp": "BMP", "image/tiff": "TIFF", "image/avif": "AVIF", "image/jp2": "JPEG2000",
    "image/x-icon": "ICO",
}  # fmt: skip


class TooLarge(Exception):
    """The header announces more pixels than are read."""


def look(path: Path, name: str, max_pixels: int) -> dict[str, Any]:
    """Return the facts of a file, as `look.Facts` holds them.

    Raises  TooLarge, BadMedia: one sentence each
    """
    with path.open("rb") as handle:
        found = sniff(handle.read(HEAD))
    if found is None:
        raise BadMedia(f"{name} is neither a picture nor a video that is read here.")
    kind, media_type = found
    try:
        if kind == "image":
            facts = _picture(path, name, max_pixels, media_type)
        else:
            facts = _video(path, name, max_pixels)
    except (TooLarge, VidgenError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise BadMedia(f"{name} begins like a {media_type} and is none.") from None
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200].rstrip(".")
        raise BadMedia(f"{name} is damaged or cut off: {reason}.") from error
    return {"kind": kind, "media_type": media_type, "recipe": _recipe(path, media_type), **facts}


def _recipe(path: Path, media_type: str) -> str | None:
    """Return the text of the recipe inside a file that is sound, if it has one of a usual size."""
    if media_type.startswith("image/") and media_type not in _WITH_RECIPE:
        return None
    text = read_recipe(path)
    return text if text is not None and len(text) <= MOST_RECIPE else None


def _picture(path: Path, name: str, max_pixels: int, media_type: str) -> dict[str, Any]:
    if media_type in _HEIF:  # which Pillow does not open; its reader looks at the size first, too
        picture = read_image(path, max_pixels=max_pixels, max_bytes=sys.maxsize)
        rows, columns, _ = picture.pixels_hwc.shape
        return {"width": columns, "height": rows, "frames": 1, "fps": None}
    Image.MAX_IMAGE_PIXELS = max_pixels // 2  # Pillow refuses twice as many, in any frame
    try:
        with Image.open(path, formats=[_OF_TYPE[media_type]]) as image:
            check_pixels(name, image.size, max_pixels)  # nothing is decoded so far
            frames = int(getattr(image, "n_frames", 1))
            image.seek(0)
            image.load()  # notices a file that is cut off
            width, height = image.size
            turned = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
    except (Image.DecompressionBombError, BadMedia):
        raise TooLarge(
            f"{name} announces more than {max_pixels / 1e6:g} million pixels, the most that are "
            "read; save a smaller one."
        ) from None
    if turned:
        width, height = height, width
    return {"width": width, "height": height, "frames": frames, "fps": None}


def _video(path: Path, name: str, max_pixels: int) -> dict[str, Any]:
    info = probe_video(path)
    if info.width * info.height > max_pixels:
        raise TooLarge(
            f"{name} is {info.width}x{info.height}, more than the {max_pixels / 1e6:g} million "
            "pixels that are read; save a smaller one."
        )
    return {
        "width": info.width,
        "height": info.height,
        "frames": info.num_frames,
        "fps": str(info.fps),
    }


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a file, or why it is refused."""
    path, name = Path(asked["path"]), str(asked["name"])
    try:
        return {"facts": look(path, name, int(asked["max_pixels"]))}
    except TooLarge as error:
        return {"refused": "input_too_large", "message": str(error)}
    except MemoryError:
        message = f"{name} needs more memory than a file may take here."
        return {"refused": "unsupported_media", "message": message}
    except VidgenError as error:
        message = error.message.replace(str(path), name).replace(path.name, name)
        return {"refused": "unsupported_media", "message": message}


def taken_bytes(what: Literal["size", "resident"]) -> int:
    """Return how much address space or memory this process holds."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[0 if what == "size" else 1]) * resource.getpagesize()


def limit(memory_bytes: int) -> None:
    """Bound what this process may take from now on: memory, files written, core dumps."""
    most = taken_bytes("size") + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_seconds(seconds: int) -> None:
    """Let this process compute so much longer before the system ends it."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(usage.ru_utime + usage.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def main() -> None:
    """Answer until the input ends."""
    memory_bytes, seconds = int(sys.argv[1]), int(sys.argv[2])
    warnings.simplefilter("ignore")
    limit(memory_bytes)
    print("ready", flush=True)
    for count, line in enumerate(sys.stdin, start=1):
        allow_seconds(seconds)
        found = answer(json.loads(line))
        grown = taken_bytes("resident") > _GROWN_BYTES
        last = grown or count == MAX_LOOKS
        print(json.dumps({**found, "last": last}), flush=True)
        if last:
            return


if __name__ == "__main__":
    main()
