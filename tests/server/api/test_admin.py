"""Queue, workers, tenants, usage, models, uploads, health, metrics."""

import io
import json
from typing import Any

import pytest
from PIL import Image

from tests.server.api.site import Site, story


def _png(width: int = 96, height: int = 64) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), (1, 2, 3)).save(buffer, "png")
    return buffer.getvalue()


def test_uploads_come_in_and_are_named_by_requests(site: Site) -> None:
    def post(name: str, content: bytes) -> Any:
        return site.http.post("/v1/uploads", files={"file": (name, content)})

    made = post("../a b.png", _png()).json()
    assert (made["width"], made["height"], made["kind"]) == (96, 64, "image")
    assert made["filename"] == "a b.png"
    content = site.http.get(f"/v1/uploads/{made['id']}/content")
    assert (content.content, content.headers["content-type"]) == (_png(), "image/png")
    video = site.created(image=made["id"])
    assert video["request"]["image"] == f"upload:{made['id']}"
    assert video["width"] / video["height"] == pytest.approx(1.5, rel=0.1)  # the picture's shape
    shots = [{"prompt": "a", "seconds": 1, "image": made["id"]}, {"prompt": "b", "seconds": 1}]
    chain = site.created(prompt=None, story={"shots": shots})
    assert chain["width"] / chain["height"] == pytest.approx(1.5, rel=0.1)
    bad = post("x.png", b"<html>")
    assert (bad.status_code, bad.json()["error"]["param"]) == (415, "file")
    assert site.http.post("/v1/uploads", data={"file": "text"}).status_code == 400
    assert [item["id"] for item in site.http.get("/v1/uploads").json()["data"]][-1] == made["id"]
    assert site.http.delete(f"/v1/uploads/{made['id']}").json()["deleted"]
    assert site.http.get(f"/v1/uploads/{made['id']}").status_code == 404
    assert (
        site.http.post("/v1/videos", json={"prompt": "x", "image": made["id"]}).status_code == 404
    )


def test_an_upload_can_be_gone_on_with(site: Site) -> None:
    site.worker()
    made = site.make(prompt="frames=9")
    data = site.http.get(f"/v1/videos/{made['id']}/content").content
    files = {"video": ("v.mp4", data)}
    answer = site.http.post(
        "/v1/videos/extensions", data={"prompt": "x", "seconds": "1"}, files=files
    )
    assert answer.status_code == 200, answer.text
    longer = answer.json()
    assert (longer["size"], longer["fps"]) == ("32x32", "8")
    assert longer["num_frames"] > 9
    fields = {item["field"] for item in longer["adjustments"]}
    assert {"size", "fps"} <= fields
    shots = [{"prompt": "a", "seconds": 1}, {"prompt": "b", "seconds": 1}]
    told = site.http.post(
        "/v1/videos/extensions", data={"shots": json.dumps(shots), "tags": '["x", "y"]'},
        files={"video": ("v.mp4", data)},
    )  # fmt: skip
    assert told.status_code == 200, told.text
    assert (told.json()["tags"], told.json()["prompt"]) == (["x", "y"], "a\nb")
    still = site.http.post(
        "/v1/videos/extensions", data={"prompt": "x", "seconds": "1"},
        files={"video": ("v.png", _png())},
    )  # fmt: skip
    assert (still.status_code, still.json()["error"]["param"]) == (422, "video")


def test_the_queue_as_a_whole(both: Site) -> None:
    both.worker()
    both.created()
    both.make(prompt=None, story=story("a"))
    both.created(hold=True)
    found = both.http.get("/v1/queue").json()
    assert found["states"]["completed"] == 2
    assert found["states"]["paused"] == 1
    assert (found["queued"], found["backlog_s"], found["workers"]) == (0, 0.0, 1)
    both.created()
    assert both.http.get("/v1/queue").json()["backlog_s"] > 0
    (worker,) = both.http.get("/v1/workers").json()["data"]
    assert worker["state"] in ("idle", "busy")
    (row,) = both.http.get("/v1/usage?group_by=model,tenant").json()["data"]
    assert (row["model"], row["tenant"], row["jobs"]) == ("toyworld", "default", 2)
    for bad in ("group_by=colour", "since=yesterday", "since=2026-13-01", "until=2026-02-30"):
        assert both.http.get(f"/v1/usage?{bad}").status_code == 400, bad
    changed = both.http.patch("/v1/tenants/default", json={"weight": 3, "max_running": None})
    assert changed.json()["weight"] == 3
    assert both.http.patch("/v1/tenants/default", json={"weight": 0}).status_code == 400
    assert both.http.patch("/v1/tenants/nobody", json={"weight": 1}).status_code == 404


def test_models_say_what_is_legal(site: Site) -> None:
    listed = site.http.get("/v1/models").json()
    assert listed["data"][0]["id"] == "toyworld"
    found = site.http.get("/v1/models/wan2.2-ti2v-5b").json()
    assert (found["width_multiple"], found["frames_rule"]) == (32, "4n+1")
    for size in found["sizes"]:
        assert size["made_width"] % 32 == size["made_height"] % 32 == 0
    assert site.http.get("/v1/models/sora-2").status_code == 404
    assert site.http.get("/v1/loras").json()["data"] == []


def test_health_and_readiness(both: Site) -> None:
    assert both.http.get("/livez").json() == {"status": "ok"}
    assert both.http.get("/readyz").status_code == 200
    assert both.http.get("/healthz").json()["status"] == "NO_WORKER"
    both.worker()
    assert both.http.get("/healthz").json()["status"] == "READY"
    both.services.draining = True
    assert both.http.get("/readyz").status_code == 503
    assert both.http.get("/healthz").json()["status"] == "DRAINING"
    assert both.http.get("/livez").status_code == 200


def test_metrics_count_what_happened(both: Site) -> None:
    both.worker()
    both.make(prompt="black@0=1 steps=3")
    cancelled = both.created()["id"]
    both.http.post(f"/v1/videos/{cancelled}/cancel")
    text = both.http.get("/metrics").text
    labels = 'kind="clip",model="toyworld"'
    for line in (
        'vidgen_jobs_in_state{state="completed"} 1.0',
        f'vidgen_jobs_total{{code="",{labels},state="completed"}} 1.0',
        f'vidgen_jobs_total{{code="cancelled",{labels},state="cancelled"}} 1.0',
        "vidgen_queue_depth 0.0",
        "vidgen_interrupted_total 0.0",
        "vidgen_cancel_latency_seconds_count 0.0",
        'vidgen_stage_seconds_count{model="toyworld",stage="denoise"} 1.0',
        "vidgen_collapse_total 1.0",
        "vidgen_queue_wait_seconds_count 1.0",
        'vidgen_workers{pool="default",state="busy"} 1.0',
    ):
        assert line in text, text
    assert 'vidgen_gpu_seconds_total{tenant="default"}' in text
    assert 'route="/v1/videos/{video_id}/cancel"' in text
    assert cancelled not in text


def test_an_answer_is_no_page_and_is_not_kept(site: Site) -> None:
    answer = site.http.get("/v1/videos")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "server" not in answer.headers
