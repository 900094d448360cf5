"""Metrics: counters come from the database, are the same everywhere and never fall."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from server.api.app import create_app
from server.queue.tallies import KINDS
from tests.server.api.site import Site, story

_OURS = tuple(f"vidgen_{name}" for name in KINDS)


def test_every_process_gives_the_same_counts_and_none_falls(both: Site) -> None:
    both.worker()
    videos = [both.make()["id"], both.make(prompt=None, story=story("a"))["id"]]
    before = _counts(both.http)
    assert len(before) > 60
    assert before["vidgen_run_seconds_count", "clip", "toyworld"] == 1
    other = create_app(
        both.floor.settings, both.floor.home, database=both.floor.db, store=both.floor.store
    )
    assert _counts(TestClient(other, base_url="http://127.0.0.1")) == before
    for video in videos:
        assert both.http.delete(f"/v1/videos/{video}").status_code == 200
    assert _counts(both.http) == before


def _counts(http: Any) -> dict[tuple[str, ...], float]:
    """Return the counters and histograms that come from the database, whose buckets add up."""
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(http.get("/metrics").text):
        if family.type not in ("counter", "histogram") or "_http_" in family.name:
            continue
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                found[sample.name, *sorted(sample.labels.values())] = sample.value
        buckets = [item for item in family.samples if item.name.endswith("_bucket")]
        last: dict[tuple[str, ...], float] = {}
        for bucket in buckets:
            own = tuple(value for name, value in bucket.labels.items() if name != "le")
            assert bucket.value >= last.get(own, 0.0), bucket
            last[own] = bucket.value
    return {name: value for name, value in found.items() if name[0].startswith(_OURS)}
