"""Models: what can be asked for by name, with legal sizes and the fields of a request."""

from typing import Any

from fastapi import APIRouter, Depends

from server.api.auth import Caller, Reader, needs
from server.api.docs import errors
from server.api.modelling import model_facts
from server.api.services import ServicesOf
from server.inputs.names import lora_names
from server.problems import Problem
from vidgen.models import known_names
from vidgen.request import VideoRequest, aliases_of, fields, group_of

router = APIRouter(prefix="/v1", tags=["models"])


def _allowed(caller: Caller) -> list[str]:
    return [name for name in known_names() if caller.models is None or name in caller.models]


@router.get("/models", operation_id="listModels", responses=errors())
def list_models(caller: Reader) -> dict[str, Any]:
    """List the models that you may use."""
    return {"object": "list", "data": [model_facts(name) for name in _allowed(caller)]}


@router.get("/models/{model}", operation_id="getModel", responses=errors(404))
def retrieve(model: str, caller: Reader) -> dict[str, Any]:
    """Look at one model: legal sizes and frame counts, and its own settings."""
    if model not in _allowed(caller):
        raise Problem("not_found", f"There is no model {model[:80]!r}; see /v1/models.")
    return model_facts(model)


@router.get(
    "/fields",
    operation_id="listFields",
    responses=errors(),
    dependencies=[Depends(needs("read"))],
)
def list_fields() -> dict[str, Any]:
    """List the fields of a clip with default, bounds, help and group: forms are made from it."""
    schema = VideoRequest.model_json_schema()
    data = [
        {
            "name": name,
            "group": group_of(info),
            "aliases": list(aliases_of(info)),
            "required": info.is_required(),
            "description": info.description,
            "schema": schema["properties"][name],
        }
        for name, info in fields().items()
    ]
    return {"object": "list", "data": data, "$defs": schema.get("$defs", {})}


@router.get(
    "/loras",
    operation_id="listLoras",
    responses=errors(),
    dependencies=[Depends(needs("read"))],
)
def list_loras(services: ServicesOf) -> dict[str, Any]:
    """List the LoRAs that requests may name."""
    names = lora_names(services.settings)
    return {"object": "list", "data": [{"id": name, "object": "lora"} for name in names]}
