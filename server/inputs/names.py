"""Names of models, LoRAs and budgets in a client's request: known ones only, never paths."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from server.problems import Problem
from server.settings import ServerSettings
from vidgen.models import KNOWN, known_names
from vidgen.request import fields as request_fields
from vidgen.request_names import explain
from vidgen.request_values import LoraSpec

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_SUFFIX = ".safetensors"


def settle_names(payload: dict[str, Any], settings: ServerSettings) -> None:
    """Check the names in a payload, and write the installation's own path for each LoRA.

    Raises  Problem invalid_request or unsupported_model, naming the field
    """
    fields = payload["request"] if "request" in payload else payload["story"].get("request")
    if not isinstance(fields, dict):
        return
    if isinstance(fields.get("model"), str):
        check_model(fields["model"])
    if fields.get("budgets", "auto") not in ("auto", "uniform"):
        raise Problem(
            "invalid_request",
            f"budgets={str(fields['budgets'])[:80]!r} is a file; over HTTP it is auto or uniform.",
            param="budgets",
        )
    if isinstance(fields.get("loras"), list):
        fields["loras"] = [_settled(item, settings) for item in fields["loras"]]


def _settled(item: Any, settings: ServerSettings) -> dict[str, Any]:
    try:
        spec = LoraSpec.model_validate(item)
    except ValidationError as error:
        raise Problem("invalid_request", explain(error).message, param="loras") from None
    return spec.model_dump() | {"path": str(lora_path(spec.path, settings))}


def model_of(fields: Mapping[str, Any]) -> str:
    """Return the name of the model that a request's fields ask for, by itself or by default."""
    return str(fields.get("model", request_fields()["model"].default))


def check_model(name: str) -> None:
    """Raise Problem unsupported_model for what is neither a known model nor a hub id.

    A hub id means weights that lie in the installation's cache; nothing is fetched for it.
    """
    if name in known_names() or any(name == row.hub_id for row in KNOWN):
        return
    if _HUB_ID.fullmatch(name) and not Path(name).exists():
        return
    raise Problem(
        "unsupported_model",
        f"Model {name[:100]!r} is neither a known one ({', '.join(known_names())}) nor a hub id "
        "(owner/name).",
        param="model",
    )


def lora_path(name: str, settings: ServerSettings) -> Path:
    """Return the file of a LoRA that a client names, in the folder that the settings give.

    A path that this function returned is taken again, so that a request can be repeated.
    Raises  Problem invalid_request
    """
    folder = Path(settings.lora_folder).absolute()
    stem = name.removeprefix(f"{folder}/").removesuffix(_SUFFIX)
    offered = lora_names(settings)
    if stem not in offered:
        raise Problem(
            "invalid_request",
            f"loras: {name[:100]!r} is not a LoRA of this server; it offers "
            f"{', '.join(offered[:20]) or 'none'}.",
            param="loras",
        )
    return folder / f"{stem}{_SUFFIX}"


def lora_names(settings: ServerSettings) -> list[str]:
    """Return the names under which clients may ask for the installation's LoRAs."""
    if not settings.lora_folder:
        return []
    return sorted(path.stem for path in Path(settings.lora_folder).glob(f"*{_SUFFIX}"))
