"""How the recipe of a clip travels inside files: as tags, a GIF comment, a PNG text or a JSON
beside frames.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vidgen.errors import BadMedia, BadRequest
from vidgen.media.disk import sync_file
from vidgen.media.source import existing_file

Tags = dict[str, str]
_KEYS = ("vidgen", "comment", "description")


def make_tags(recipe: str | None, title: str | None) -> Tags:
    """The file's tags: the recipe in `comment`, which every program keeps, and in `vidgen`, which
    says whose it is.
    """
    tags: Tags = {}
    if title is not None:
        tags["title"] = title
    if recipe is not None:
        if not is_json_object(recipe):
            raise BadRequest("The recipe must be a JSON object as text.", field="recipe")
        tags["comment"] = tags["vidgen"] = recipe
    return tags


def extend_tags(source: Path | None, step: dict[str, Any]) -> Tags:
    """Tags for a file made from another: title and recipe, with one more entry in its `finish`."""
    recipe = None if source is None else read_recipe(source)
    content = {} if recipe is None else json.loads(recipe)
    history = content.get("finish", [])
    content["finish"] = [*(history if isinstance(history, list) else [history]), step]
    title = None if source is None else _video_tags(source).get("title")
    return make_tags(json.dumps(content, ensure_ascii=False), title)


@contextmanager
def metadata_file(tags: Tags) -> Iterator[Path]:
    """Write tags as an ffmetadata file: a command line holds no more than 128 KiB in one word."""
    lines = [";FFMETADATA1"]
    for key, value in tags.items():
        escaped = re.sub(r"([=;#\\\n])", r"\\\1", value)
        lines.append(f"{key}={escaped}")
    with TemporaryDirectory(prefix="vidgen-tags-") as folder:
        file = Path(folder, "tags.txt")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
        yield file


def read_recipe(path: str | Path) -> str | None:
    """Find the recipe in a video, a GIF, a PNG file or a folder of frames; None if there is none.

    The key `vidgen` comes first; other programs drop it but keep `comment`, which counts if it is a
    JSON object.
    Raises  NotFound, BadMedia
    """
    path = Path(path)
    if path.is_dir():
        return _from_folder(path)
    path = existing_file(path)
    with path.open("rb") as file:
        head = file.read(8)
    tags = _picture_tags(path) if head.startswith((b"GIF8", b"\x89PNG")) else _video_tags(path)
    lowered = {key.lower(): value for key, value in tags.items()}
    for key in _KEYS:
        if is_json_object(lowered.get(key)):
            return lowered[key]
    return None


def is_json_object(text: str | None) -> bool:
    """Whether a text is a JSON object."""
    if text is None or not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def write_folder_facts(folder: Path, fps: Fraction, num_frames: int, tags: Tags) -> None:
    """Write beside the frames of a folder: `clip.json` (rate, count, title) and the recipe, word
    for word.
    """
    facts = {"fps": str(fps), "num_frames": num_frames, "title": tags.get("title")}
    texts = {"clip.json": json.dumps(facts, ensure_ascii=False, indent=1) + "\n"}
    if "vidgen" in tags:
        texts["recipe.json"] = tags["vidgen"]
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
        sync_file(folder / name)
    sync_file(folder)


def add_gif_comment(path: Path, text: str) -> None:
    """Insert a comment extension behind the header of a GIF, in place."""
    content = path.read_bytes()
    flags = content[10]
    header = 13 + (3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0)
    data = text.encode()
    blocks = b"".join(
        bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255)
    )
    path.write_bytes(content[:header] + b"\x21\xfe" + blocks + b"\x00" + content[header:])


def _from_folder(folder: Path) -> str | None:
    file = folder / "recipe.json"
    if not file.exists():
        if (folder / "clip.json").exists():
            return None
        raise BadMedia(f"{str(folder)!r} is a folder that Vidgen did not write; give a clip.")
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        text = ""
    if not is_json_object(text):
        raise BadMedia(f"{str(file)!r} is not a recipe that Vidgen wrote.")
    return text


def _video_tags(path: Path) -> Tags:
    from vidgen.media.container import open_video

    with open_video(path) as container:
        return dict(container.metadata)


def _picture_tags(path: Path) -> Tags:
    from PIL import Image

    try:
        with Image.open(path, formats=("GIF", "PNG")) as image:
            found = dict(image.info)
    except (OSError, ValueError, SyntaxError) as error:
        raise BadMedia(f"{path.name} is damaged or cut off.") from error
    texts = {k: v.decode(errors="replace") if isinstance(v, bytes) else v for k, v in found.items()}
    return {str(k): v for k, v in texts.items() if isinstance(v, str)}
