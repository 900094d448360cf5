"""The files that a request names on this machine, brought to a server."""

from pathlib import Path
from typing import Any

from server.cli.client import Client
from server.inputs.fields import slots
from vidgen.errors import BadRequest, NotFound
from vidgen.home import expanded

_AS_THEY_ARE = ("data:", "https://", "upload:", "job:", "video_")


def bring_files(payload: dict[str, Any], client: Client) -> None:
    """Replace every local file that a payload names by an upload, each file sent once.

    payload  {"request": ..} or {"story": ..}; changed
    Raises   NotFound for a file that is not here
    """
    sent: dict[str, str] = {}
    for slot in slots(payload):
        name = slot.value
        if name.startswith(_AS_THEY_ARE):
            continue
        if name not in sent:
            sent[name] = bring_file(name, slot.name, client)
        slot.put(sent[name])


def bring_file(name: str, field: str, client: Client) -> str:
    """Send one local file and return how requests name it."""
    path = expanded(name)
    if not path.is_file():
        raise NotFound(f"{field}={name!r} is no file of this machine.", field=field.split(".")[0])
    return client.upload(path)


def refuse_local(given: dict[str, Any]) -> None:
    """Raise BadRequest for what is of this machine and cannot be sent: models and LoRAs by path."""
    model = given.get("model")
    if model is not None and Path(model).is_dir():
        raise BadRequest(
            f"model={model} is a folder of this machine; name a model that the server has "
            "(GET /v1/models lists them).",
            field="model",
        )
    for lora in given.get("loras", ()):
        if Path(str(lora["path"])).is_file():
            raise BadRequest(
                f"loras: {lora['path']} is a file of this machine; name one that the server has.",
                field="loras",
            )
