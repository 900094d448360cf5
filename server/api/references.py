"""References: the ways in which a client's body names a picture or a video, brought to one.

What a reference becomes (an upload that is read under limits), and that a model or LoRA is a name
and no path, is decided in `server.inputs`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.datastructures import UploadFile

from server.inputs.upload import JOB_PREFIX, JOB_REFERENCE, PREFIX, UPLOAD_REFERENCE
from server.problems import Problem

ONE = ("image", "last_image", "video", "mask")
MANY = ("reference_images",)
OF_SHOTS = ("image", "last_image")

Keep = Callable[[str, UploadFile], str]


def named_request(data: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    """Return the fields of a clip with every file named as the server names files.

    data    under canonical names
    keep    stores a file that came with the body and returns its reference
    Raises  Problem invalid_request for a path, or anything else that names no file of a client
    """
    out = dict(data)
    for name in ONE:
        if out.get(name) is not None:
            out[name] = reference(name, out[name], keep)
    for name in MANY:
        if out.get(name) is not None:
            found = out[name] if isinstance(out[name], list | tuple) else [out[name]]
            out[name] = [reference(name, item, keep) for item in found]
    for name, value in out.items():
        if isinstance(value, UploadFile):
            raise Problem("invalid_request", f"{name} takes no file.", param=name)
    return out


def named_story(data: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    """Return a story's fields with every file named as the server names files.

    Raises  Problem invalid_request
    """
    out = dict(data)
    request = out.get("request")
    if isinstance(request, Mapping):
        out["request"] = named_request(request, keep)
    if out.get("end_image") is not None:
        out["end_image"] = reference("end_image", out["end_image"], keep)
    shots = out.get("shots")
    if isinstance(shots, list | tuple):
        out["shots"] = [_shot(number, shot, keep) for number, shot in enumerate(shots)]
    return out


def _shot(number: int, shot: Any, keep: Keep) -> Any:
    if not isinstance(shot, Mapping):
        return shot
    out = dict(shot)
    for name in OF_SHOTS:
        if out.get(name) is not None:
            out[name] = reference(f"shots.{number}.{name}", out[name], keep)
    return out


def reference(field: str, value: Any, keep: Keep) -> str:
    """Return a reference in its one form: upload:<id>, job:<id>, a data URL or an https URL.

    Raises  Problem invalid_request
    """
    if isinstance(value, UploadFile):
        return keep(field, value)
    if isinstance(value, Mapping):
        value = _of_object(field, value)
    if isinstance(value, str):
        if match := UPLOAD_REFERENCE.fullmatch(value):
            return PREFIX + match[1]
        if match := JOB_REFERENCE.fullmatch(value):
            return JOB_PREFIX + match[1]
        if value[:5].lower() == "data:" or value[:8].lower() == "https://":
            return value
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    raise Problem(
        "invalid_request",
        f"{field}={shown} is not an upload's id, a data URL, an https URL or the id of a finished "
        "video of yours; upload the file to /v1/uploads.",
        param=field.split(".")[0],
    )


def _of_object(field: str, value: Mapping[str, Any]) -> Any:
    """Read the objects that OpenAI's clients send: image_url, file_id, id."""
    known = [name for name in ("image_url", "file_id", "id") if value.get(name) is not None]
    if len(known) != 1 or len(value) != 1:
        raise Problem(
            "invalid_request",
            f"{field} as an object has exactly one of image_url, file_id and id.",
            param=field.split(".")[0],
        )
    found = value[known[0]]
    return found.get("url") if isinstance(found, Mapping) else found


def is_job(name: str) -> bool:
    """Whether a reference names a job."""
    return name.startswith(JOB_PREFIX)
