"""Storyboards: long videos told card by card; each card can be made anew."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from server.api.answers import page
from server.api.asking import asking
from server.api.auth import Creator, Reader
from server.api.boards import KIND, board, heads, render, reroll
from server.api.bodies import body_hash, read_body
from server.api.docs import CREATES, body, errors
from server.api.fields import JobOptions, parse, refuse_unknown, sort_fields, take_options
from server.api.intake import Intake
from server.api.making import make
from server.api.references import OF_SHOTS, reference
from server.api.services import Services, ServicesOf, check_id
from server.api.submit import IDEMPOTENCY_KEY, Origin, Ticket
from server.problems import Problem
from server.queue.job import Job
from vidgen.request_values import Untrusted

router = APIRouter(prefix="/v1/storyboards", tags=["storyboards"])
BodyOf = Annotated[dict[str, Any], Depends(read_body)]


class CardReroll(Untrusted):
    """A card made anew; what is not given stays, but the seed, which is drawn."""

    prompt: str | None = Field(None, min_length=1, max_length=8192)
    seconds: float | None = Field(None, gt=0, le=600)
    seed: int | None = Field(None, ge=0, le=2**63 - 1)
    image: str | None = None
    last_image: str | None = None
    transition: Literal["continue", "cut", "bridge"] | None = None
    strategy: str | None = None
    rest: Literal["stale", "render"] = Field(
        "stale", description="Later cards: stale = they wait, render = made anew too."
    )


BODIES = (CardReroll,)


@router.post("", operation_id="createStoryboard", responses=errors(*CREATES),
             openapi_extra=body("StoryboardCreate", headers=[IDEMPOTENCY_KEY]))  # fmt: skip
def create(request: Request, services: ServicesOf, caller: Creator, fields: BodyOf) -> JSONResponse:
    """Make a storyboard: a story, of which each shot is a card."""
    ticket = Ticket.of(request)
    digest = body_hash({**fields, "route": "storyboards"})
    asked = sort_fields(fields, story=True)
    _refuse_secret(asked.options)
    with asking(services, caller) as ask:
        planned = make(ask.services, caller, asked)
        job, replayed = ask.submit(planned, asked.options, ticket, digest)
    return _show(services, job, replayed)


def _refuse_secret(options: JobOptions) -> None:
    if options.zdr:
        raise Problem(
            "unprocessable", "A storyboard is kept to be changed; make a video for zdr.",
            param="zdr",
        )  # fmt: skip


def _show(services: Services, job: Job, replayed: bool = False) -> JSONResponse:
    headers = {"Idempotent-Replayed": "true"} if replayed else {}
    return JSONResponse(board(services, job), headers=headers)


@router.get("", operation_id="listStoryboards", responses=errors(404))
def list_boards(
    services: ServicesOf,
    caller: Reader,
    after: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JSONResponse:
    """List your storyboards as they are now, the newest first."""
    seen = None if after is None else check_id(after, "storyboard")
    found, more = heads(services, caller.tenant, seen, limit)
    return JSONResponse(page([board(services, job) for job in found], has_more=more))


@router.get("/{board_id}", operation_id="getStoryboard", responses=errors(404, 409, 410))
def retrieve(board_id: str, services: ServicesOf, caller: Reader) -> JSONResponse:
    """Look at a storyboard: its cards, and which are stale."""
    return _show(services, services.jobs.get(check_id(board_id, "storyboard"), caller.tenant))


@router.post(
    "/{board_id}/cards/{card}/reroll",
    operation_id="rerollCard",
    responses=errors(*CREATES),
    openapi_extra=body("CardReroll", required=False, headers=[IDEMPOTENCY_KEY]),
)
def reroll_card(
    board_id: str, card: int, request: Request, services: ServicesOf, caller: Creator,
    fields: BodyOf,
) -> JSONResponse:  # fmt: skip
    """Make a card anew: a new storyboard, sharing the clips before it, with later cards stale."""
    job = services.jobs.get(check_id(board_id, "storyboard"), caller.tenant)
    given, options = take_options(fields)
    refuse_unknown(given, tuple(CardReroll.model_fields))
    _refuse_secret(options)
    digest = body_hash({**fields, "board": job.id, "card": card})
    with asking(services, caller) as ask:
        keep = Intake(ask.services, caller).keep
        pictures = {name: reference(name, given[name], keep) for name in OF_SHOTS if name in given}
        asked = parse(CardReroll, {**given, **pictures})
        changes = asked.model_dump(exclude_unset=True, exclude={"rest"})
        planned = reroll(ask.services, caller, job, card, changes, options, rest=asked.rest)
        origin = Origin(job.id, KIND)
        made, replayed = ask.submit(planned, options, Ticket.of(request), digest, origin)
    return _show(services, made, replayed)


@router.post(
    "/{board_id}/render",
    operation_id="renderStoryboard",
    responses=errors(*CREATES),
    openapi_extra=body("JobOptions", required=False, headers=[IDEMPOTENCY_KEY]),
)
def render_board(
    board_id: str, request: Request, services: ServicesOf, caller: Creator, fields: BodyOf
) -> JSONResponse:
    """Make all stale cards: a new storyboard, sharing the clips that are made."""
    job = services.jobs.get(check_id(board_id, "storyboard"), caller.tenant)
    given, options = take_options(fields)
    refuse_unknown(given, tuple(JobOptions.model_fields))
    _refuse_secret(options)
    digest = body_hash({**fields, "board": job.id, "render": True})
    with asking(services, caller) as ask:
        planned = render(ask.services, caller, job, options)
        origin = Origin(job.id, KIND)
        made, replayed = ask.submit(planned, options, Ticket.of(request), digest, origin)
    return _show(services, made, replayed)
