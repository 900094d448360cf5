"""Events: every one once and in order, over reconnects, until the end."""

import asyncio
import json
import threading
from typing import Any

import pytest

from server.api.routes.events import line_of
from server.api.watch import follow, follow_tenant
from server.queue.events import Event, after
from tests.server.api.site import Site


def may() -> bool:
    return True


def _read(text: str) -> list[dict[str, Any]]:
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line[:8])
        if "id" in fields:
            found.append({**json.loads(fields["data"]), "type": fields["event"],
                          "sent": int(fields["id"])})  # fmt: skip
    return found


def test_a_job_that_has_ended_is_told_whole_and_once(both: Site) -> None:
    both.worker()
    video = both.make(prompt="steps=2")["id"]
    url = f"/v1/videos/{video}/events"
    with both.http:
        answer = both.http.get(url)
        assert answer.headers["content-type"].startswith("text/event-stream")
        told = _read(answer.text)
        known = after(both.floor.db, video, 0)
        assert [item["seq"] for item in told] == [event.seq for event in known]
        assert told[0]["type"] == "job.queued"
        assert told[-1]["type"] == "video.completed"
        assert all(item["sent"] == item["seq"] and item["id"] == video for item in told)
        middle = told[2]["seq"]
        rest = _read(both.http.get(url, headers={"Last-Event-ID": str(middle)}).text)
        assert [item["seq"] for item in rest] == [i["seq"] for i in told if i["seq"] > middle]
        assert _read(both.http.get(f"{url}?after={middle}").text) == rest
        last = {"Last-Event-ID": str(told[-1]["seq"])}
        assert both.http.get(url, headers=last).status_code == 204
        for bad in ("x", "-1", "9" * 40):
            assert both.http.get(url, headers={"Last-Event-ID": bad}).status_code == 400


def test_a_listener_hears_what_is_written_elsewhere(both: Site) -> None:
    """The end comes from another thread while the listener waits."""
    both.worker()
    video = both.created(prompt="steps=3 step=0.1")["id"]
    services = both.services

    async def listen() -> list[Event]:
        services.watch.start()
        thread = threading.Timer(0.3, both.work)
        thread.start()
        try:
            stream = follow(services.database, services.watch, video, 0, may)
            return [event async for event in stream if event is not None]
        finally:
            services.watch.stop()
            thread.join()

    heard = asyncio.run(asyncio.wait_for(listen(), 60))
    assert [event.seq for event in heard] == [e.seq for e in after(both.floor.db, video, 0)]
    assert heard[-1].type == "video.completed"


def test_a_stream_ends_with_the_process(site: Site) -> None:
    video = site.created()["id"]
    services = site.services

    async def listen() -> list[Event | None]:
        services.watch.start()
        threading.Timer(0.2, services.watch.stop).start()
        return [event async for event in follow(services.database, services.watch, video, 0, may)]

    heard = asyncio.run(asyncio.wait_for(listen(), 30))
    assert [event.type for event in heard if event is not None] == ["job.held"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_stream_ends_when_whoever_follows_may_no_more(site: Site, whole: bool) -> None:
    """Nothing is told that was written after the key was revoked."""
    video = site.created()["id"]
    services = site.services
    allowed = [True]

    async def listen() -> list[Event | None]:
        services.watch.start()
        found = (services.database, services.watch)
        stream = (
            follow_tenant(*found, "default", 0, lambda: allowed[0])
            if whole
            else follow(*found, video, 0, lambda: allowed[0])
        )
        heard = [await anext(stream)]
        allowed[0] = False
        site.http.post(f"/v1/videos/{video}/cancel")
        heard += [event async for event in stream]
        services.watch.stop()
        return heard

    heard = asyncio.run(asyncio.wait_for(listen(), 30))
    assert [event.type for event in heard if event is not None] == ["job.held"]


def test_all_jobs_of_a_tenant_and_no_others(site: Site) -> None:
    mine = [site.created()["id"] for _ in range(2)]
    site.floor.job()  # of another tenant
    services = site.services

    async def listen() -> list[str]:
        services.watch.start()
        heard: list[str] = []
        async for event in follow_tenant(services.database, services.watch, "default", 0, may):
            assert event is not None
            heard.append(event.job_id)
            if len(heard) == 2:
                services.watch.stop()
        return heard

    assert asyncio.run(asyncio.wait_for(listen(), 30)) == mine


def test_an_event_is_one_block_of_lines() -> None:
    text = line_of(Event(7, "video_1", 1.5, "progress", {"message": "a\nb\r\n\n: c"}))
    assert text.startswith("id: 7\nevent: progress\ndata: {")
    assert text.endswith("}\n\n")
    assert text.count("\n") == 4


def test_prefer_wait_answers_with_the_end_or_202(site: Site) -> None:
    site.worker()
    with site.http:
        early = site.http.post(
            "/v1/videos", json={"prompt": "x"}, headers={"Prefer": "respond-async, wait=0"}
        )
        assert (early.status_code, early.json()["status"]) == (202, "queued")
        thread = threading.Timer(0.2, lambda: (site.work(), site.work()))
        thread.start()
        late = site.http.post("/v1/videos", json={"prompt": "y"}, headers={"Prefer": "wait=60"})
        thread.join()
        assert (late.status_code, late.json()["status"]) == (200, "completed")
        assert late.headers["preference-applied"] == "wait=60"
