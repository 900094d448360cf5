"""The local files that a request names, written so that its recipe can be repeated anywhere."""

from pathlib import Path

from vidgen.home import expanded
from vidgen.models import known_names
from vidgen.request import VideoRequest, parse_request

_FILES = ("image", "last_image", "video", "mask")


def with_absolute_paths(request: VideoRequest) -> VideoRequest:
    """Return a request whose local files, and a model that is a folder, have absolute paths."""
    data = request.given()
    for name in _FILES:
        if data.get(name) is not None:
            data[name] = _absolute(data[name])
    if data.get("reference_images"):
        data["reference_images"] = [_absolute(path) for path in data["reference_images"]]
    if data.get("loras"):
        data["loras"] = [{**item, "path": _absolute(item["path"])} for item in data["loras"]]
    if "model" in data:
        data["model"] = _absolute_model(data["model"])
    return parse_request(data)


def _absolute(name: str) -> str:
    """Return the absolute path of a file; a data URL and the home of an unknown user stay."""
    if name.startswith("data:"):
        return name
    try:
        return str(expanded(name).absolute())
    except RuntimeError:
        return name


def _absolute_model(name: str) -> str:
    if name in known_names():
        return name
    path = _absolute(name)
    try:
        return path if Path(path).is_dir() else name
    except OSError:  # a name that is too long
        return name
