"""Webhook endpoints, as the official client manages them."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from server.api.answers import page
from server.api.auth import Caller, Creator, Reader, needs
from server.api.bodies import read_body
from server.api.docs import body, errors
from server.api.fields import parse
from server.api.services import Services, ServicesOf, check_id
from server.webhooks.endpoints import Endpoint, Endpoints
from server.webhooks.outbox import EVENT_TYPES
from vidgen.request_values import Untrusted

router = APIRouter(prefix="/v1", tags=["webhooks"])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]
_SAID = errors(404, 413, 415, 422)


class WebhookCreate(Untrusted):
    """An endpoint to be added."""

    name: str = Field(min_length=1, max_length=256)
    url: str = Field(min_length=1, max_length=2048)
    event_types: tuple[str, ...] = Field(min_length=1, max_length=32)


class WebhookUpdate(Untrusted):
    """What changes of an endpoint."""

    name: str | None = Field(None, min_length=1, max_length=256)
    url: str | None = Field(None, min_length=1, max_length=2048)
    event_types: tuple[str, ...] | None = Field(None, min_length=1, max_length=32)


class WebhookRotate(Untrusted):
    """How a secret is replaced."""

    keep_old_secret_active_for_24_hours: bool = False


class WebhookTest(Untrusted):
    """Which sample is sent."""

    event_type: str = Field(max_length=64)


class WebhookEndpoint(BaseModel):
    """An endpoint, with its secret only when that is new."""

    id: str
    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    created_at: int
    event_types: list[str]
    name: str
    url: str
    signing_secret_hint: str | None = None
    signing_secret: str | None = None
    disabled_at: int | None = None
    disabled_reason: str | None = None


BODIES = (WebhookCreate, WebhookUpdate, WebhookRotate, WebhookTest)


def _endpoints(services: Services) -> Endpoints:
    return Endpoints(services.database, services.settings, services.clock)


def _shape(found: Endpoint, *, secret: bool = False) -> JSONResponse:
    return JSONResponse(_data(found, secret=secret))


def _data(found: Endpoint, *, secret: bool = False) -> dict[str, Any]:
    made = WebhookEndpoint(
        id=found.id,
        created_at=int(found.created_at),
        event_types=list(found.event_types),
        name=found.name,
        url=found.url,
        signing_secret_hint=found.secret_hint,
        disabled_at=None if found.disabled_at is None else int(found.disabled_at),
        disabled_reason=found.disabled_reason,
    ).model_dump(exclude={"signing_secret"})
    return made | ({"signing_secret": found.secrets[0]} if secret else {})


@router.post(
    "/webhook_endpoints", operation_id="createWebhookEndpoint",
    responses=errors(413, 415, 422, 429),
    response_model=WebhookEndpoint, openapi_extra=body("WebhookCreate"),
)  # fmt: skip
def create(services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Add an endpoint; the answer holds its secret, once."""
    asked = parse(WebhookCreate, fields)
    made = _endpoints(services).create(caller.tenant, asked.name, asked.url, asked.event_types)
    return _shape(made, secret=True)


@router.get("/webhook_endpoints", operation_id="listWebhookEndpoints", responses=errors(404))
def list_endpoints(
    services: ServicesOf,
    caller: Reader,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JSONResponse:
    """List your endpoints, the newest first."""
    seen = None if after is None else check_id(after, "webhook endpoint")
    found, more = _endpoints(services).page(caller.tenant, after=seen, limit=limit)
    return JSONResponse(page([_data(item) for item in found], has_more=more))


@router.get(
    "/webhook_event_types", operation_id="listWebhookEventTypes", responses=errors(),
    dependencies=[Depends(needs("read"))],
)  # fmt: skip
def event_types() -> dict[str, Any]:
    """List what can be told to an endpoint."""
    return {"object": "list", "data": list(EVENT_TYPES)}


@router.get(
    "/webhook_endpoints/{endpoint_id}", operation_id="getWebhookEndpoint", responses=errors(404),
    response_model=WebhookEndpoint,
)  # fmt: skip
def retrieve(endpoint_id: str, services: ServicesOf, caller: Reader) -> JSONResponse:
    """Look at an endpoint; `requests` is the one that signs for webhook_url of a request."""
    return _shape(_endpoints(services).get(_named(services, caller, endpoint_id), caller.tenant))


@router.post(
    "/webhook_endpoints/{endpoint_id}", operation_id="updateWebhookEndpoint", responses=_SAID,
    response_model=WebhookEndpoint, openapi_extra=body("WebhookUpdate"),
)  # fmt: skip
def update(endpoint_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Change an endpoint; a new URL enables one that was disabled."""
    asked = parse(WebhookUpdate, fields)
    found = check_id(endpoint_id, "webhook endpoint")
    return _shape(_endpoints(services).update(found, caller.tenant, **asked.model_dump()))


@router.delete(
    "/webhook_endpoints/{endpoint_id}", operation_id="deleteWebhookEndpoint", responses=errors(404)
)
def delete(endpoint_id: str, services: ServicesOf, caller: Creator) -> dict[str, Any]:
    """Remove an endpoint and what was still to be sent to it."""
    found = check_id(endpoint_id, "webhook endpoint")
    _endpoints(services).delete(found, caller.tenant)
    return {"id": found, "deleted": True, "object": "webhook_endpoint.deleted"}


@router.post(
    "/webhook_endpoints/{endpoint_id}/rotate_secret", operation_id="rotateWebhookSecret",
    responses=_SAID, response_model=WebhookEndpoint,
    openapi_extra=body("WebhookRotate", required=False),
)  # fmt: skip
def rotate(endpoint_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Replace the secret; the answer holds the new one, once."""
    asked = parse(WebhookRotate, fields)
    found = _endpoints(services).rotate_secret(
        _named(services, caller, endpoint_id), caller.tenant,
        keep_old=asked.keep_old_secret_active_for_24_hours,
    )  # fmt: skip
    return _shape(found, secret=True)


@router.post(
    "/webhook_endpoints/{endpoint_id}/test", operation_id="testWebhookEndpoint", responses=_SAID,
    openapi_extra=body("WebhookTest"),
)  # fmt: skip
def test(endpoint_id: str, services: ServicesOf, caller: Creator, fields: BodyOf) -> dict[str, Any]:
    """Send a sample event now and say what the receiver answered."""
    asked = parse(WebhookTest, fields)
    found = check_id(endpoint_id, "webhook endpoint")
    answer = _endpoints(services).test(found, caller.tenant, asked.event_type)
    return {
        "object": "webhook_endpoint.test",
        "event_type": asked.event_type,
        "status_code": answer.status,
        "success": answer.accepted,
        "webhook_endpoint_id": found,
    }


def _named(services: Services, caller: Caller, endpoint_id: str) -> str:
    if endpoint_id == "requests":
        return _endpoints(services).for_requests(caller.tenant).id
    return check_id(endpoint_id, "webhook endpoint")
