"""Files that come with a request stay only if it makes a job, once, whatever the route."""

import base64
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from server.database.tables import uploads
from server.keeping import sweep
from tests.server.api.site import Site, story
from tests.server.inputs.files import png

INLINE = "data:image/png;base64," + base64.b64encode(png()).decode()


def kept(site: Site) -> set[str]:
    """Return the ids of the uploads, whose rows and files are the same ones."""
    with site.floor.db.read() as connection:
        rows = set(connection.execute(select(uploads.c.id)).scalars())
    assert rows == set(site.floor.store.folders("uploads/"))
    return rows


def with_picture(*prompts: str, **more: Any) -> dict[str, Any]:
    told = story(*prompts, **more)
    told["shots"][-1]["last_image"] = INLINE
    return told


def routes(site: Site) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return, for each route that makes a job, a request with one picture in it."""
    clip = site.make()["id"]
    chain = site.make(prompt=None, story=story("a", "b", seed=3))["id"]
    further = {"prompt": "on", "seconds": 1, "last_image": INLINE}
    return {
        "create": ("/v1/videos", {"prompt": "x", "image": INLINE}),
        "story": ("/v1/videos", {"story": with_picture("x", "y")}),
        "storyboard": ("/v1/storyboards", with_picture("x", "y")),
        "remix": (f"/v1/videos/{clip}/remix", {"prompt": "y", "image": INLINE}),
        "fork of a clip": (f"/v1/videos/{clip}/fork", {"prompt": "y", "image": INLINE}),
        "fork": (f"/v1/videos/{chain}/fork", {"story": with_picture("a", "c")}),
        "reroll": (f"/v1/storyboards/{chain}/cards/1/reroll", {"image": INLINE, "seed": 4}),
        "extension": ("/v1/videos/extensions", {"video": clip, "shots": [further]}),
        "extension of a chain": ("/v1/videos/extensions", {"video": chain, "shots": [further]}),
    }


NAMES = (
    "create", "story", "storyboard", "remix", "fork of a clip", "fork", "reroll", "extension",
    "extension of a chain",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_only_the_job_that_is_made_keeps_its_files(site: Site, name: str) -> None:
    site.worker()
    url, body = routes(site)[name]
    assert kept(site) == set()
    head = {"Idempotency-Key": "one"}
    made = site.http.post(url, json=body, headers=head)
    assert made.status_code == 200, made.text
    mine = kept(site)
    assert len(mine) == 1
    again = site.http.post(url, json=body, headers=head)
    assert (again.status_code, again.json()["id"]) == (200, made.json()["id"])
    assert again.headers["idempotent-replayed"] == "true"
    assert kept(site) == mine
    other = site.http.post(url, json={**body, "title": "z"}, headers=head)
    assert other.json()["error"]["code"] == "idempotency_mismatch"
    blind = site.http.post(url, json=body, headers={"x-stainless-retry-count": "1"})
    assert blind.json()["id"] == made.json()["id"]
    site.services.jobs.settings = site.services.settings.model_copy(update={"max_queued": 1})
    full = site.http.post(url, json={**body, "title": "z"})
    assert full.status_code == 429, full.text
    wrong = site.http.post(url, json={**body, "webhook_url": "ftp://example.org/"})
    assert wrong.status_code in (400, 422), wrong.text
    assert kept(site) == mine


def test_every_route_is_tried(site: Site) -> None:
    site.worker()
    assert tuple(routes(site)) == NAMES


def test_an_estimate_leaves_nothing(site: Site) -> None:
    site.worker()
    files = {"image": ("x.png", png())}
    sent = site.http.post("/v1/uploads", files={"file": ("cat.png", png())}).json()
    for answer in (
        site.http.post("/v1/videos/estimate", json={"prompt": "x", "image": INLINE}),
        site.http.post("/v1/videos/estimate", data={"prompt": "x"}, files=files),
        site.http.post("/v1/videos/estimate", json={"story": with_picture("x", "y")}),
        site.http.post("/v1/videos/estimate", json={"prompt": "x", "image": sent["id"]}),
        site.http.post("/v1/videos/edits", json={"prompt": "x", "video": INLINE}),
    ):
        assert answer.status_code in (200, 422), answer.text
    assert kept(site) == {sent["id"]}
    found = site.http.get(f"/v1/uploads/{sent['id']}").json()
    assert found["expires_at"] == sent["expires_at"]
    site.created(image=sent["id"])
    assert site.http.get(f"/v1/uploads/{sent['id']}").json()["expires_at"] > sent["expires_at"]


def test_a_change_keeps_its_files_only_if_it_is_made(site: Site) -> None:
    site.worker()
    video = site.created()["id"]
    url = f"/v1/videos/{video}"
    refused = site.http.patch(url, json={"image": INLINE, "webhook_url": "ftp://example.org/"})
    assert refused.json()["error"]["param"] == "webhook_url"
    assert kept(site) == set()
    changed = site.http.patch(url, json={"image": INLINE})
    assert changed.status_code == 200, changed.text
    assert kept(site) == {changed.json()["request"]["image"].removeprefix("upload:")}


def test_a_picture_that_a_change_replaces_goes_unless_another_job_waits_for_it(site: Site) -> None:
    site.worker()
    first = site.created(image=INLINE)
    url = f"/v1/videos/{first['id']}"
    shared = first["request"]["image"]
    other = site.created(image=shared)
    changed = site.http.patch(url, json={"image": INLINE}).json()["request"]["image"]
    assert kept(site) == {shared.removeprefix("upload:"), changed.removeprefix("upload:")}
    assert site.http.patch(f"/v1/videos/{other['id']}", json={"image": None}).status_code == 200
    assert kept(site) == {changed.removeprefix("upload:")}
    again = site.http.patch(url, json={"image": INLINE}).json()["request"]["image"]
    assert kept(site) == {again.removeprefix("upload:")}


def test_a_picture_stays_when_an_ended_job_that_names_it_can_be_forked(site: Site) -> None:
    site.worker()
    first = site.created(image=INLINE)
    shared = first["request"]["image"]
    ended = site.created(image=shared)["id"]
    assert site.http.post(f"/v1/videos/{ended}/cancel").status_code == 200
    site.http.patch(f"/v1/videos/{first['id']}", json={"image": None})
    assert kept(site) == {shared.removeprefix("upload:")}
    assert site.http.post(f"/v1/videos/{ended}/fork", json={}).status_code == 200


def test_files_stay_when_nobody_knows_whether_the_job_was_made(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a commit was lost: the job is there, and names them."""
    site.worker()
    jobs, create, edit = site.services.jobs, site.services.jobs.create, site.services.jobs.edit

    def lost(made: Any) -> Any:
        raise OperationalError("commit", {}, Exception("gone"))

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "create", lambda new: lost(create(new)))
        answer = site.http.post("/v1/videos", json={"prompt": "x", "image": INLINE})
        assert answer.status_code == 503
    (video,) = site.http.get("/v1/videos").json()["data"]
    assert kept(site) == {video["request"]["image"].removeprefix("upload:")}
    monkeypatch.setattr(jobs, "edit", lambda *a, **more: lost(edit(*a, **more)))
    url = f"/v1/videos/{video['id']}"
    assert site.http.patch(url, json={"image": INLINE}).status_code == 503
    named = site.http.get(url).json()["request"]["image"].removeprefix("upload:")
    assert named in kept(site)
    assert named != video["request"]["image"].removeprefix("upload:")


def test_a_video_that_a_waiting_job_extends_stays(site: Site) -> None:
    """It came inside the request, so that only the job knows of it."""
    site.worker()
    made = site.make()["id"]
    clip = site.http.get(f"/v1/videos/{made}/content").content
    asked = {"prompt": "on", "seconds": "1"}
    longer = site.http.post(
        "/v1/videos/extensions", data=asked, files={"video": ("v.mp4", clip)}
    ).json()
    (upload,) = kept(site)
    expired = longer["created_at"] + 9 * 86400
    args = (site.floor.db, site.floor.store, site.floor.settings, lambda: expired)
    assert sweep(*args, orphans=False).uploads == 0
    assert kept(site) == {upload}
    site.http.post(f"/v1/videos/{longer['id']}/cancel")
    site.http.delete(f"/v1/videos/{longer['id']}")
    assert kept(site) == set()
