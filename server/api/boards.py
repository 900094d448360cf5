"""Boards: a chain seen as a storyboard, whose cards are its shots; cards are made anew one by one.

A card that is made anew is a new job: it shares the clips before the card and leaves the later
cards stale. They stay in its payload (`later`) until they are rendered, each with the job that
has its old clips.
"""

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import exists, select

from server.api.answers import look
from server.api.auth import Caller
from server.api.deriving import share
from server.api.fields import JobOptions
from server.api.making import payload_of, refuse_extended
from server.api.planned import Planned
from server.api.services import Services
from server.database.tables import jobs
from server.problems import Problem
from server.queue.job import Job
from server.queue.rows import find
from server.states import LEASED, TERMINAL

KIND = "storyboard"
CHANGES = ("prompt", "seconds", "seed", "image", "last_image", "transition", "strategy")


def board(services: Services, job: Job) -> dict[str, Any]:
    """Return a chain as a storyboard.

    Raises  Problem gone, conflict
    """
    payload = story_payload(job)
    story, later = payload["story"], payload.get("later", {})
    made = {row.idx for row in services.jobs.clips(job.id)}
    cards = [_card(job, number, shot, made) for number, shot in enumerate(story["shots"])]
    cards += [
        {"index": len(cards) + number, **shot, "state": "stale", "clips": [], "video": video}
        for number, (shot, video) in enumerate(
            zip(later.get("shots", ()), later.get("videos", ()), strict=True)
        )
    ]
    return {
        "id": job.id,
        "object": "storyboard",
        "created_at": int(job.created_at),
        "title": job.title,
        "parent": job.parent,
        "cards": cards,
        "stale": [card["index"] for card in cards if card["state"] == "stale"],
        "story": story,
        "video": look(services, job).model_dump(mode="json"),
    }


def _card(job: Job, number: int, shot: Mapping[str, Any], made: set[int]) -> dict[str, Any]:
    clips = [clip["index"] for clip in job.decided["clips"] if clip["shot"] == number]
    missing = [index for index in clips if index not in made]
    if not missing:
        state = "made"
    elif job.state in TERMINAL:
        state = "failed"
    elif job.state in LEASED and min(missing) == len(made):
        state = "making"
    else:
        state = "waiting"
    return {"index": number, **shot, "state": state, "clips": clips, "video": job.id}


def story_payload(job: Job) -> dict[str, Any]:
    """Return the payload of a chain that a story made.

    Raises  Problem gone, conflict
    """
    payload = payload_of(job)
    if "story" not in payload:
        raise Problem("conflict", f"{job.id} is one clip and no storyboard.")
    refuse_extended(payload, job)
    return payload


def reroll(
    services: Services,
    caller: Caller,
    job: Job,
    card: int,
    changes: Mapping[str, Any],
    options: JobOptions,
    *,
    rest: str,
) -> Planned:
    """Plan a card made anew, with another seed unless one is given.

    card     counted from 0
    changes  fields of its shot
    rest     stale: later cards wait to be rendered; render: they are made anew too
    Raises   Problem
    """
    payload = story_payload(job)
    shots = whole_shots(payload)
    if not 0 <= card < len(shots):
        raise Problem(
            "not_found", f"There is no card {card}; {job.id} has 0 to {len(shots) - 1}.",
            param="card",
        )  # fmt: skip
    drawn = {"seed": secrets.randbits(31)}
    shots[card] = {**shots[card], **drawn, **changes}
    stop = len(shots) if rest == "render" else card + 1
    return _planned(services, caller, job, shots, stop, options)


def render(services: Services, caller: Caller, job: Job, options: JobOptions) -> Planned:
    """Plan all stale cards.

    Raises  Problem conflict when there is none
    """
    payload = story_payload(job)
    if not payload.get("later", {}).get("shots"):
        raise Problem("conflict", f"{job.id} has no stale cards.")
    shots = whole_shots(payload)
    return _planned(services, caller, job, shots, len(shots), options)


def whole_shots(payload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all shots, those of stale cards too."""
    return [*payload["story"]["shots"], *payload.get("later", {}).get("shots", ())]


def _planned(
    services: Services,
    caller: Caller,
    job: Job,
    shots: list[dict[str, Any]],
    stop: int,
    options: JobOptions,
) -> Planned:
    payload = story_payload(job)
    later = payload.get("later", {})
    end = later.get("end_image", payload["story"].get("end_image"))
    story = {**payload["story"], "shots": shots[:stop]}
    story["end_image"] = end if stop == len(shots) else None
    planned = share(services, caller, job, story, options, None)
    if stop < len(shots):
        videos = [job.id] * len(payload["story"]["shots"]) + later.get("videos", [])
        planned.payload["later"] = {
            "shots": shots[stop:], "end_image": end, "videos": videos[stop:],
        }  # fmt: skip
    return planned


def heads(services: Services, tenant: str, after: str | None, limit: int) -> tuple[list[Job], bool]:
    """Return the storyboards of a tenant that no later one came of, the newest first."""
    child = jobs.alias()
    newer = exists().where(
        child.c.parent == jobs.c.id, child.c.parent_kind == KIND, child.c.trashed_at.is_(None)
    )
    chosen = select(jobs).where(
        jobs.c.tenant == tenant,
        jobs.c.kind == "chain",
        jobs.c.trashed_at.is_(None),
        jobs.c.zdr.is_(False),
        jobs.c.payload["extension"]["video"].as_string().is_(None),
        ~newer,
    )
    with services.database.read() as connection:
        if after is not None:
            last = find(connection, after, tenant)
            chosen = chosen.where(jobs.c.id < last.id)
        rows = connection.execute(chosen.order_by(jobs.c.id.desc()).limit(limit + 1)).all()
    return [Job.of(row) for row in rows[:limit]], len(rows) > limit
