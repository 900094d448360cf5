"""Long video and comparison, with the toy model: drift, re-rolled cards, players on one clock."""

from typing import Any

import pytest

from chaining.drift.thresholds import SLOPES
from tests.demos.site import Site, eventually

pytestmark = pytest.mark.slow
DIRECTIONS = ("left", "right", "up", "down")
ENDED = "['made','stale'].includes(document.querySelector('[data-card=\"%d\"]')?.dataset.state)"


def states(page: Any) -> list[str]:
    """Return the states of the cards."""
    found: list[str] = page.eval_on_selector_all(
        "[data-card]", "cards => cards.map(card => card.dataset.state)"
    )
    return found


def test_a_story_is_told_measured_and_told_anew(real_site: Site, open_page: Any) -> None:
    page = open_page(real_site)
    page.click("text=A story of four shots")
    page.wait_for_selector("#page-storyboard .vg-shot >> nth=3")
    page.click("#page-storyboard details summary")
    page.fill("#page-storyboard label:has-text('Steps') input", "3")
    page.keyboard.press("Tab")
    page.click("#render-board")
    page.wait_for_selector("[data-card='3']")
    page.wait_for_selector("#page-storyboard .vg-stage video")  # it plays before all is made
    first = page.evaluate("location.hash").split("/")[1]
    made = real_site.ended(first)
    assert made["state"] == "completed", made["error"]
    page.wait_for_selector(".vg-drift svg >> nth=3")
    verdict = made["report"]["drift"]["verdict"]["overall"]
    assert page.inner_text(".vg-drift .vg-badge >> nth=0") == verdict
    check_limits(page, made["report"]["drift"])
    page.wait_for_function(ENDED % 3)
    page.click("[data-card='1'] >> text=/^Re-roll$/")
    page.wait_for_function(f"!location.hash.includes('{first}')")
    second = page.evaluate("location.hash").split("/")[1]
    assert real_site.ended(second)["state"] == "completed"
    eventually(lambda: states(page) == ["made", "made", "stale", "stale"], f"{states(page)}")
    hashes = [
        [real_site.get(f"storyboards/{board}")["cards"][0]["clips"] for board in (first, second)],
        [clip_hash(real_site, board, 0) for board in (first, second)],
        [clip_hash(real_site, board, 1) for board in (first, second)],
    ]
    assert hashes[0][0] == hashes[0][1]
    assert hashes[1][0] == hashes[1][1]  # card 1 is the same film
    assert hashes[2][0] != hashes[2][1]
    assert page.faults == []


def check_limits(page: Any, drift: dict[str, Any]) -> None:
    """Compare the brightness that is drawn, and its limits, with the meter's own, to scale."""
    assert len(drift["segments"]) == 1
    limit = SLOPES["gain"]
    wanted = [limit.fails * 3, limit.passes * 3, drift["clips"][3]["readings"]["gain"]]

    def end(line: str) -> float:
        points = page.get_attribute(f".vg-plot >> nth=0 >> .vg-line-{line} >> nth=0", "points")
        return 30 - float(points.split(" ")[-1].split(",")[1])  # above the middle

    drawn = [end(line) for line in ("bad", "good", "reading")]
    assert [value / drawn[0] for value in drawn] == pytest.approx(
        [value / wanted[0] for value in wanted], abs=0.01
    )


def clip_hash(site: Site, video: str, clip: int) -> bytes:
    """Return the bytes of one clip of a chain."""
    import httpx

    path = f"{site.address}/v1/videos/{video}/content?variant=clip-{clip}"
    return httpx.get(path, timeout=60).raise_for_status().content


def test_dense_and_top_k_run_in_step(real_site: Site, open_page: Any) -> None:
    asked = {"prompt": "a big red ball moves left", "seed": 9, "num_inference_steps": 4}
    made = real_site.ended(real_site.post("videos", asked)["id"])
    page = open_page(real_site, f"compare/{made['id']}")
    page.click("#dense-topk:not([disabled])")
    page.wait_for_selector("#page-compare [data-video] >> nth=1")
    ids = page.evaluate("location.hash").split("/")[1].split(",")
    dense, topk = (real_site.get(f"videos/{video}") for video in ids)
    assert [job["request"]["attention"] for job in (dense, topk)] == ["dense", "topk"]
    assert dense["seed"] == topk["seed"] == 9
    table = page.inner_text("[aria-label='What differs'] tbody").splitlines()
    assert [line.split("\t")[0] for line in table] == ["attention"]
    page.click("#compare-play")
    apart = page.evaluate(
        """async () => { const films = [...document.querySelectorAll("#page-compare [data-video]")];
        let most = 0; const until = performance.now() + 4000;
        while (performance.now() < until) {
          await new Promise(requestAnimationFrame);
          if (films.some((film) => film.seeking)) continue;
          const times = films.map((film) => film.currentTime);
          most = Math.max(most, Math.max(...times) - Math.min(...times)); }
        return most; }"""
    )
    assert apart <= 1 / 16
    page.click("#compare-play")
    page.click("text=frame ▶ >> visible=true")
    page.click("#page-compare >> text=Difference ×4")
    page.wait_for_selector("#page-compare canvas")
    page.click("#page-compare >> text=Wipe")
    page.wait_for_selector("#page-compare .vg-edge")
    assert page.faults == []
