"""Uploads: pictures and videos that requests name."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import UploadFile
from starlette.responses import Response

from server.api.answers import page
from server.api.auth import Creator, Reader
from server.api.bodies import MULTIPART, read_body
from server.api.docs import errors
from server.api.fields import refuse_unknown
from server.api.services import ServicesOf, check_id
from server.api.serving import Stored, bytes_said, serve
from server.inputs.upload import Upload
from server.problems import Problem
from vidgen.recipe import parse_recipe, request_of
from vidgen.recipe_check import check_recipe

router = APIRouter(prefix="/v1/uploads", tags=["uploads"])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]
_FILE = {"type": "string", "format": "binary"}
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "properties": {"file": _FILE, "purpose": {"type": "string"}},
                    "required": ["file"],
                    "additionalProperties": False,
                }
            }
        },
    }
}


def shape(upload: Upload) -> dict[str, Any]:
    """Return what clients see of an upload."""
    return {
        "id": upload.id,
        "object": "upload",
        "filename": upload.filename,
        "media_type": upload.media_type,
        "bytes": upload.bytes,
        "sha256": upload.sha256,
        "created_at": int(upload.created_at),
        "expires_at": int(upload.expires_at),
        **{name: value for name, value in upload.facts.as_dict().items() if name != "recipe"},
        "has_recipe": upload.facts.recipe is not None,
    }


@router.post(
    "", operation_id="createUpload", responses=errors(413, 415, 422, 507), openapi_extra=_FORM
)
def create(services: ServicesOf, caller: Creator, fields: BodyOf) -> dict[str, Any]:
    """Bring a picture or a video; it is looked into, and kept for a while or as long as jobs do."""
    refuse_unknown(fields, ("file", "purpose"))
    file = fields.get("file")
    if not isinstance(file, UploadFile):
        raise Problem("invalid_request", "file is missing; send it as multipart.", param="file")
    made = services.uploads.add(caller.tenant, file.filename or "file", file.file, param="file")
    return shape(made)


@router.get("", operation_id="listUploads", responses=errors(404))
def list_uploads(
    services: ServicesOf,
    caller: Reader,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JSONResponse:
    """List your uploads, the newest first."""
    seen = None if after is None else check_id(after, "upload")
    found, more = services.uploads.page(caller.tenant, after=seen, limit=limit)
    return JSONResponse(page([shape(item) for item in found], has_more=more))


@router.get("/{upload_id}", operation_id="getUpload", responses=errors(404))
def retrieve(upload_id: str, services: ServicesOf, caller: Reader) -> dict[str, Any]:
    """Look at an upload."""
    return shape(services.uploads.get(check_id(upload_id, "upload"), caller.tenant))


@router.get(
    "/{upload_id}/content",
    operation_id="getUploadContent",
    response_class=Response,
    responses={
        **bytes_said(),
        **errors(404, 410, 416),
    },
)
def content(upload_id: str, request: Request, services: ServicesOf, caller: Reader) -> Response:
    """Download an upload."""
    found = services.uploads.get(check_id(upload_id, "upload"), caller.tenant)
    stored = Stored(found.key, found.bytes, found.sha256)
    return serve(request, services.store, stored, f"{found.id}.{stored.suffix}")


@router.get("/{upload_id}/recipe", operation_id="getUploadRecipe", responses=errors(404, 422))
def recipe(upload_id: str, services: ServicesOf, caller: Reader) -> dict[str, Any]:
    """Return what a clip of ours was asked for, from the recipe that it carries."""
    found = services.uploads.get(check_id(upload_id, "upload"), caller.tenant)
    text = parse_recipe(found.facts.recipe, found.filename)
    check_recipe(text, found.filename)
    return {"object": "recipe", "upload": found.id, "request": request_of(text).given()}


@router.delete("/{upload_id}", operation_id="deleteUpload", responses=errors(404))
def delete(upload_id: str, services: ServicesOf, caller: Creator) -> dict[str, Any]:
    """Delete an upload; waiting jobs that name it will fail."""
    services.uploads.remove(check_id(upload_id, "upload"), caller.tenant)
    return {"id": upload_id, "deleted": True, "object": "upload.deleted"}
