"""Videos: create, look, list, change, act, delete."""

from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from server.problems import Problem
from server.queue.keys import create_key
from tests.server.api.site import Site, story


def test_a_video_from_request_to_file(both: Site) -> None:
    both.worker()
    made = both.created(seed=3, title="T", tags=["x"])
    assert made["status"] == made["state"] == "queued"
    assert (made["queue_position"], made["progress"], made["object"]) == (1, 0, "video")
    assert made["eta_s"]["p50"] <= made["eta_s"]["p90"]
    both.work()
    found = both.http.get(f"/v1/videos/{made['id']}")
    assert "openai-poll-after-ms" not in found.headers
    video = found.json()
    assert (video["status"], video["progress"], video["error"]) == ("completed", 100, None)
    assert (video["seed"], video["title"], video["tags"]) == (3, "T", ["x"])
    assert video["expires_at"] > video["completed_at"] >= video["created_at"]
    assert video["clips"] == video["clips_completed"] == 1
    assert set(video["variants"]) >= {"video", "thumbnail", "spritesheet"}
    assert video["usage"]["clips"] == 1


def test_what_had_to_differ_is_told_and_strict_refuses_it_by_name(site: Site) -> None:
    """README of another server asks for 80 frames and 854x480; neither is legal here."""
    body = {"prompt": "x", "num_frames": 80, "size": "854x480", "steps": 1}
    made = site.http.post("/v1/videos", json=body).json()
    fields = {item["field"]: (item["asked"], item["used"]) for item in made["adjustments"]}
    assert fields["num_frames"] == (80, 81)
    assert fields["width"] == (854, 864)
    assert (made["size"], made["num_frames"], made["status"]) == ("854x480", 81, "queued")
    refused = site.http.post("/v1/videos", json={**body, "strict": True})
    assert refused.status_code == 422
    text = refused.json()["error"]["message"]
    assert "num_frames" in text
    assert "width" in text


@pytest.mark.parametrize("size", ["720x1280", "1280x720", "1024x1792", "1792x1024"])
@pytest.mark.parametrize("seconds", ["4", "8", "12"])
def test_what_official_clients_can_say_is_planned(site: Site, size: str, seconds: str) -> None:
    asked = {"prompt": "x", "model": "wan2.1-t2v-1.3b", "size": size, "seconds": seconds}
    answer = site.http.post("/v1/videos/estimate", json=asked)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert f"{found['width']}x{found['height']}" == size
    assert abs(found["seconds"] - float(seconds)) < 0.2
    assert found["num_frames"] % 4 == 1


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({}, 400, "prompt"),
        ({"prompt": ""}, 400, "prompt"),
        ({"prompt": "x", "steps": 999}, 400, "num_inference_steps"),
        ({"prompt": "x", "width": "wide"}, 400, "width"),
        ({"prompt": "x", "size": "big"}, 400, "size"),
        ({"prompt": "x", "model": "sora-2"}, 422, "model"),
        ({"prompt": "x", "model": "/etc"}, 422, "model"),
        ({"prompt": "x", "model": "../weights"}, 422, "model"),
        ({"prompt": "x", "n": 2}, 422, "n"),
        ({"prompt": "x", "image": "/etc/passwd"}, 400, "image"),
        ({"prompt": "x", "image": "file:///etc/passwd"}, 400, "image"),
        ({"prompt": "x", "image": "http://example.com/a.png"}, 400, "image"),
        ({"prompt": "x", "video": "../x.mp4"}, 400, "video"),
        ({"prompt": "x", "reference_images": ["/a.png"]}, 400, "reference_images"),
        ({"prompt": "x", "image": "upload:upload_0000000000000000000000000"}, 404, "image"),
        ({"prompt": "x", "image": "video_0000000000000000000000000"}, 404, "image"),
        ({"prompt": "x", "budgets": "/etc/passwd"}, 400, "budgets"),
        ({"prompt": "x", "loras": ["/etc/passwd"]}, 400, "loras"),
        ({"prompt": "x", "webhook_url": "ftp://x"}, 400, "webhook_url"),
        ({"prompt": "x", "video": "data:video/mp4;base64,AAAA"}, 415, "video"),
        ({"story": {"shots": "x"}}, 400, "shots"),
        ({"story": {"shots": [{"prompt": "a"}]}}, 400, "shots"),
        ({"story": {"shots": [{"prompt": "a", "seconds": 1, "image": "/x.png"}]}}, 400, "shots"),
    ],
)
def test_bad_requests_name_the_field(
    site: Site, body: dict[str, Any], status: int, param: str | None
) -> None:
    answer = site.http.post("/v1/videos", json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["param"] or "").split(".")[0] == (param or "")
    assert error["message"].endswith((".", "?"))
    assert not site.http.get("/v1/videos").json()["data"]


def test_idempotency_and_blind_retries(both: Site) -> None:
    post = both.http.post
    key = {"Idempotency-Key": "one"}
    first = post("/v1/videos", json={"prompt": "x"}, headers=key)
    again = post("/v1/videos", data={"prompt": "x"}, headers=key)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    other = post("/v1/videos", json={"prompt": "y"}, headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")
    retry = {"x-stainless-retry-count": "1"}
    plain = post("/v1/videos", json={"prompt": "z"}).json()["id"]
    assert post("/v1/videos", json={"prompt": "z"}, headers=retry).json()["id"] == plain
    assert post("/v1/videos", json={"prompt": "z"}).json()["id"] != plain
    bad = post("/v1/videos", json={"prompt": "x"}, headers={"Idempotency-Key": "k" * 300})
    assert bad.status_code == 400


def test_lists_are_paged_and_filtered(both: Site) -> None:
    ids = [both.created(prompt=f"ball {n}", seed=n, tags=[f"t{n % 2}"])["id"] for n in range(5)]
    get = both.http.get
    page = get("/v1/videos?limit=2").json()
    assert [item["id"] for item in page["data"]] == ids[:2:-1]
    assert (page["has_more"], page["last_id"], page["object"]) == (True, ids[3], "list")
    rest = get(f"/v1/videos?limit=10&after={page['last_id']}").json()
    assert [item["id"] for item in rest["data"]] == ids[2::-1]
    assert not rest["has_more"]

    def found(query: str) -> list[str]:
        return [item["id"] for item in get(f"/v1/videos?order=asc&{query}").json()["data"]]

    assert found("") == ids
    assert found("tag=t1") == ids[1::2]
    assert found("seed=3") == [ids[3]]
    assert found("text=BALL+4") == [ids[4]]
    assert found("state=held") == ids
    assert found("state=running&state=completed") == []
    assert found("model=other") == []
    assert get("/v1/videos?after=video_zzz").status_code == 404
    assert get("/v1/videos?order=up").status_code == 400


def test_the_queue_is_listed_as_it_will_run(both: Site) -> None:
    both.worker()
    db = both.floor.db
    _, theirs = create_key(db, "other", "k", ["create", "read"])
    told = {"Authorization": f"Bearer {theirs}"}
    assert both.http.post("/v1/videos", json={"prompt": "x"}, headers=told).status_code == 200
    _, own = create_key(db, "default", "k", ["create", "read"])
    both.http.headers["Authorization"] = f"Bearer {own}"
    ids = [both.created(seed=number)["id"] for number in range(4)]
    both.http.post(f"/v1/videos/{ids[3]}/move", json={"to": "first"})
    held = both.created(hold=True)["id"]

    def listed(query: str) -> dict[str, Any]:
        return dict(both.http.get(f"/v1/videos?order=queue&{query}").json())

    pages = [listed("limit=3")]
    pages.append(listed(f"limit=3&after={pages[0]['last_id']}"))
    assert [page["has_more"] for page in pages] == [True, False]
    found = [video for page in pages for video in page["data"]]
    assert [video["id"] for video in found] == [ids[3], *ids[:3], held]
    looked = [both.http.get(f"/v1/videos/{video['id']}").json() for video in found]
    for name in ("queue_position", "eta_start_s", "eta_s"):
        assert [video[name] for video in found] == [video[name] for video in looked]
    assert None not in [video["queue_position"] for video in found[:4]]
    assert listed("state=paused")["data"][0]["id"] == held
    refused = both.http.get("/v1/videos?order=queue&state=failed")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "state")
    assert both.http.get("/v1/videos?order=queue&after=video_zzz").status_code == 404
    other = both.http.get("/v1/videos?order=queue", headers=told).json()["data"]
    assert [video["queue_position"] for video in other] == [2]  # behind the one that was moved


def test_actions_on_a_waiting_job(site: Site) -> None:
    site.worker()
    one, two = (site.created()["id"] for _ in range(2))

    def act(name: str, video: str = two, **body: Any) -> Any:
        return site.http.post(f"/v1/videos/{video}/{name}", json=body)

    assert act("move", to="first").json()["queue_position"] == 1
    assert act("move", after=one).json()["queue_position"] == 2
    assert act("move", to="first", after=one).status_code == 400
    assert act("hold", reason="later").json()["hold_reason"] == "later"
    assert act("release").json()["state"] == "queued"
    assert act("pause").json()["state"] == "paused"
    assert act("resume").json()["state"] == "queued"
    assert act("trash").status_code == 409
    noted = act("annotate", title="A", tags=["b", "c"], starred=True).json()
    assert (noted["title"], noted["tags"], noted["starred"]) == ("A", ["b", "c"], True)
    noted = act("annotate", starred=False).json()
    assert (noted["title"], noted["tags"], noted["starred"]) == ("A", ["b", "c"], False)
    assert act("annotate", titel="A").status_code == 400
    ended = act("cancel").json()
    assert (ended["status"], ended["state"]) == ("failed", "cancelled")
    assert ended["error"]["code"] == "cancelled"
    assert act("trash").json()["trashed_at"]
    assert [v["id"] for v in site.http.get("/v1/videos").json()["data"]] == [one]
    assert [v["id"] for v in site.http.get("/v1/videos?trashed=true").json()["data"]] == [two]
    assert act("restore").json()["trashed_at"] is None
    assert act("retry").json()["state"] == "queued"


def test_a_waiting_job_is_changed_and_planned_anew(site: Site) -> None:
    site.worker()
    made = site.created(seed=4, num_frames=17)
    url = f"/v1/videos/{made['id']}"
    changed = site.http.patch(url, json={"seconds": 3, "priority": 1, "title": "new"}).json()
    assert (changed["num_frames"], changed["seed"], changed["priority"]) == (49, 4, 1)
    assert (changed["title"], changed["prompt"]) == ("new", "a red ball")
    assert changed["request"] == {"prompt": "a red ball", "seed": 4, "seconds": 3.0}
    assert site.http.patch(url, json={"steps": 999}).status_code == 400
    assert site.http.patch(url, json={"zdr": True}).status_code == 422
    site.work()
    assert site.http.patch(url, json={"seconds": 2}).status_code == 409


def test_delete_is_final(both: Site) -> None:
    both.worker()
    video = both.make()["id"]
    key = next(iter(both.floor.jobs.get(video, None).artifacts.values()))["key"]
    assert both.floor.store.head(key)
    answer = both.http.delete(f"/v1/videos/{video}")
    assert answer.json() == {"id": video, "deleted": True, "object": "video.deleted"}
    assert both.http.get(f"/v1/videos/{video}").status_code == 404
    assert both.http.delete(f"/v1/videos/{video}").status_code == 404
    assert list(both.floor.store.keys(f"jobs/{video}/")) == []
    waiting = both.created()["id"]
    assert both.http.delete(f"/v1/videos/{waiting}").json()["deleted"]


def test_delete_of_a_running_job_waits_for_its_worker(sqlite: Any, tmp_path: Any) -> None:
    from server.api.erasing import erase_stopped

    site = Site(sqlite, tmp_path / "home", cancel_grace_seconds=0.1)
    site.worker()
    video = site.created(prompt="a ball; steps=1")["id"]
    runner = site.floor.claimed()
    assert runner is not None
    answer = site.http.delete(f"/v1/videos/{video}")
    assert (answer.status_code, answer.json()["state"]) == (202, "cancelling")
    assert site.http.get(f"/v1/videos/{video}").json()["status"] == "in_progress"
    runner.run()
    assert erase_stopped(sqlite, site.floor.store, site.floor.settings) == 1
    assert site.http.get(f"/v1/videos/{video}").status_code == 404


def test_estimate_makes_nothing(site: Site) -> None:
    clip = site.http.post("/v1/videos/estimate", json={"prompt": "x"}).json()
    assert clip["estimate"]["seconds"]["low"] < clip["estimate"]["seconds"]["high"]
    assert (clip["kind"], clip["num_clips"], clip["tokens"]) == ("clip", 1, 180)
    long = site.http.post("/v1/videos/estimate", json={"story": story("a", "b")}).json()
    assert (long["kind"], long["num_clips"]) == ("chain", 2)
    assert long["estimate"]["seconds"]["low"] > clip["estimate"]["seconds"]["low"]
    assert not site.http.get("/v1/videos").json()["data"]


def test_a_job_that_keeps_nothing_shows_no_word(site: Site) -> None:
    made = site.created(
        prompt="a SECRET ball", zdr=True, negative_prompt="SECRET", guidance_scale=1
    )
    assert made["prompt"] is None
    assert made["request"] is None
    assert [item["field"] for item in made["adjustments"]] == ["negative_prompt"]
    assert "SECRET" not in str(made)
    assert site.http.get("/v1/videos?text=secret").json()["data"] == []
    again = site.http.post(f"/v1/videos/{made['id']}/remix", json={"prompt": "y"})
    assert again.status_code == 410


def test_a_full_queue_says_when_to_come_again(sqlite: Any, tmp_path: Any) -> None:
    site = Site(sqlite, tmp_path / "home", max_queued=1)
    site.created()
    answer = site.http.post("/v1/videos", json={"prompt": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_full")
    assert answer.json()["error"]["queue_depth"] == 1
    wait = int(answer.headers["retry-after"])
    assert 1 <= wait <= 300
    assert answer.headers["retry-after-ms"] == str(1000 * wait)


def test_a_retry_of_a_refusal_is_not_taken_for_a_lost_answer(sqlite: Any, tmp_path: Any) -> None:
    """The same request twice on purpose; the second was refused for now and comes again."""
    site = Site(sqlite, tmp_path / "home", max_queued=1)
    retry = {"x-stainless-retry-count": "1"}
    first = site.created()["id"]
    body = {"prompt": "a red ball"}
    assert site.http.post("/v1/videos", json=body).status_code == 429
    assert site.http.post("/v1/videos", json=body, headers=retry).status_code == 429
    site.http.post(f"/v1/videos/{first}/cancel")
    second = site.http.post("/v1/videos", json=body, headers=retry).json()["id"]
    assert second != first
    assert site.http.post("/v1/videos", json=body, headers=retry).json()["id"] == second


def test_what_is_not_there(site: Site) -> None:
    for method, path, status in (
        ("GET", "/v1/videos/video_123", 404), ("GET", "/v1/videos/%00", 404),
        ("GET", "/v1/nothing", 404), ("PUT", "/v1/videos", 405), ("POST", "/livez", 405),
        ("POST", "/v1/videos/characters", 501), ("GET", "/v1/videos/characters/x", 501),
        ("POST", "/v1/videos/video_123/cancel", 404), ("GET", "/v1/videos?limit=0", 400),
    ):  # fmt: skip
        answer = site.http.request(method, path)
        assert answer.status_code == status, (method, path, answer.text)
        assert set(answer.json()["error"]) >= {"code", "message", "type", "param"}


def test_hold_creates_it_paused(site: Site) -> None:
    site.worker()
    made = site.created(hold=True)
    assert (made["state"], made["status"], made["queue_position"]) == ("paused", "queued", None)
    assert site.floor.claimed() is None


def test_one_that_cannot_be_erased_does_not_keep_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from server.api import erasing

    ids = [site.created()["id"] for _ in range(3)]
    for video in ids:
        site.floor.jobs.ask_stop(video, None, "delete")
    erase = erasing.erase

    def stuck(db: Any, store: Any, settings: Any, job_id: str, clock: Any) -> None:
        if job_id == ids[0]:
            raise Problem("storage_failed", "The store does not answer.")
        erase(db, store, settings, job_id, clock)

    monkeypatch.setattr(erasing, "erase", stuck)
    asked = (site.floor.db, site.floor.store, site.floor.settings)
    assert erasing.erase_stopped(*asked) == 2
    assert site.http.get(f"/v1/videos/{ids[0]}").status_code == 200
    monkeypatch.undo()
    assert erasing.erase_stopped(*asked) == 1


def test_a_deletion_that_the_store_refuses_is_an_error_and_can_be_asked_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = site.make()["id"]
    url = f"/v1/videos/{video}"

    def fail(_prefix: str) -> None:
        raise Problem("storage_failed", "The store does not answer.")

    with monkeypatch.context() as patch:
        patch.setattr(site.floor.store, "delete_prefix", fail)
        answer = site.http.delete(url)
        assert answer.json()["error"]["code"] == "storage_failed"
    assert site.http.get(f"{url}/content").status_code == 410  # nobody is shown half of it
    assert site.http.delete(url).json()["deleted"]
    assert site.http.get(url).status_code == 404
    assert site.floor.store.folders("jobs/") == []


def test_a_changed_webhook_is_looked_at_like_a_new_one(site: Site) -> None:
    video = site.created()["id"]
    for url in ("http://169.254.169.254/x", "ftp://example.org/"):
        answer = site.http.patch(f"/v1/videos/{video}", json={"webhook_url": url})
        assert answer.json()["error"]["param"] == "webhook_url", answer.text


def test_errors_of_the_database_hold_no_values(site: Site) -> None:
    with pytest.raises(DBAPIError) as caught, site.floor.db.read() as connection:
        connection.execute(text("select * from nothing where a = :a"), {"a": "SECRET"})
    assert "SECRET" not in str(caught.value)


def test_null_takes_a_field_out_of_a_waiting_job(site: Site) -> None:
    asked = {"strict": True, "steps": 9, "seed": 5, "preset": "exact", "negative_prompt": "fog"}
    video = site.created(**asked)["id"]
    left = site.http.patch(f"/v1/videos/{video}", json=dict.fromkeys(asked)).json()["request"]
    assert left == {"prompt": "a red ball", "seed": left["seed"]}
