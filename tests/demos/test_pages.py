"""The other pages: queue, library, and what a dropped file does."""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.demos.site import Site, eventually
from tests.demos.test_create import box
from vidgen.media import VideoWriter

pytestmark = pytest.mark.slow
OPEN_JOBS = "/api/videos?limit=100&order=queue"
OPEN_ROWS = "#page-queue section >> nth=0 >> tr[data-job]"


def test_the_queue_is_changed_by_hand(fake_site: Site, open_page: Any) -> None:
    first = fake_site.post("videos", {"prompt": "it holds the worker; steps=200 step=0.2"})
    eventually(lambda: fake_site.get(f"videos/{first['id']}")["state"] == "running", "not begun")
    waiting = [fake_site.post("videos", {"prompt": f"number {k}"})["id"] for k in (1, 2, 3)]
    page = open_page(fake_site, "queue")
    row = f'#page-queue tr[data-job="{waiting[2]}"]'
    page.wait_for_selector(row)
    page.click(f"{row} >> text=First")
    eventually(lambda: place(fake_site, waiting[2]) == 1, "it does not move")
    page.click(f'#page-queue tr[data-job="{waiting[0]}"] >> text=Pause')
    eventually(lambda: fake_site.get(f"videos/{waiting[0]}")["state"] == "paused", "not paused")
    page.click(f'#page-queue tr[data-job="{waiting[1]}"] >> text=Edit')
    page.wait_for_selector("#save")
    page.wait_for_function("document.querySelector('#field-prompt textarea').value === 'number 2'")
    box(page, "prompt").fill("number two")
    page.click("#save")
    eventually(lambda: fake_site.get(f"videos/{waiting[1]}")["prompt"] == "number two", "not saved")
    page.evaluate("location.hash = 'queue'")
    for video in (waiting[1], waiting[0], waiting[2], first["id"]):
        page.click(f'#page-queue tr[data-job="{video}"] >> text=Cancel')
        assert fake_site.ended(video)["state"] == "cancelled"


def test_every_place_is_shown_in_order(fake_site: Site, open_page: Any) -> None:
    """Of many more jobs than the newest, and as they are moved."""
    first = fake_site.post("videos", {"prompt": "it holds the worker; steps=900 step=0.2"})["id"]
    wait_for(fake_site, first, "running")
    waiting = [fake_site.post("videos", {"prompt": f"number {k}"})["id"] for k in range(45)]
    fake_site.post(f"videos/{waiting[-1]}/move", {"to": "first"})
    page = open_page(fake_site, "queue")
    page.wait_for_selector(f"{OPEN_ROWS} >> nth=45")
    rows = page.evaluate(
        """[...document.querySelector("#page-queue table").tBodies[0].rows].map((row) =>
        [row.dataset.job, row.innerText.match(/place (\\d+)/)?.[1] ?? ""])"""
    )
    order = [first, waiting[-1], *waiting[:-1]]
    assert rows == [[id, str(place or "")] for place, id in enumerate(order)]
    assert page.inner_text(f"{OPEN_ROWS} >> nth=45").count("Ready in about") == 1
    fake_site.let_go()


def test_the_queue_is_paged_on(fake_site: Site, open_page: Any) -> None:
    made = [fake_site.post("videos", {"prompt": f"held {k}", "hold": True})["id"] for k in range(6)]
    page = open_page(fake_site)
    deleted: list[str] = []

    def two(route: Any) -> None:
        """Answer with two jobs; the first that a page is to go on after is deleted just then."""
        last = re.search(r"after=(\w+)", route.request.url)
        if last and not deleted:
            deleted.append(last[1])
            httpx.delete(f"{fake_site.address}/v1/videos/{last[1]}").raise_for_status()
        route.continue_(url=route.request.url.replace("limit=100", "limit=2"))

    page.route(f"**{OPEN_JOBS}*", two)
    page.evaluate("location.hash = 'queue'")
    rows = page.locator(OPEN_ROWS)
    for count in (2, 4, 5):
        page.wait_for_selector(f"{OPEN_ROWS} >> nth={count - 1}")
        assert rows.count() == count
        more = page.locator("#page-queue >> text=Show more")
        assert more.is_visible() == (count < 5)
        if count < 5:
            more.click()
    assert deleted == [made[1]]
    assert page.locator(".vg-toast").count() == 0
    found = {row.get_attribute("data-job") for row in rows.all()}
    assert found == set(made) - set(deleted)
    count_rows(page)
    for _ in range(2):  # the next look keeps what was asked for
        next_look(page)
    assert page.evaluate("window.least") == 5
    for video in found:
        fake_site.post(f"videos/{video}/cancel", {})
    assert page.faults == []


def count_rows(page: Any) -> None:
    """Have the page keep how many open jobs it shows at least, from now on."""
    page.evaluate(
        """() => { const { tBodies: [body] } = document.querySelector("#page-queue table");
        window.least = body.rows.length;
        const look = () => (window.least = Math.min(window.least, body.rows.length));
        new MutationObserver(look).observe(body, { childList: true }); }"""
    )


def next_look(page: Any, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Do something and wait until the queue is looked at once more: the look before is over."""
    with page.expect_request(lambda asked: OPEN_JOBS in asked.url and "after" not in asked.url):
        meanwhile()


def test_more_of_the_queue_stays_when_an_earlier_answer_comes(
    fake_site: Site, open_page: Any
) -> None:
    made = [fake_site.post("videos", {"prompt": f"held {k}", "hold": True})["id"] for k in range(3)]
    page = open_page(fake_site)
    page.route(
        f"**{OPEN_JOBS}*",
        lambda route: route.continue_(url=route.request.url.replace("limit=100", "limit=2")),
    )
    page.evaluate("location.hash = 'queue'")
    page.wait_for_selector(f"{OPEN_ROWS} >> nth=1")
    hold(page, OPEN_JOBS, "")
    page.wait_for_function("window.held")
    page.click("#page-queue >> text=Show more")
    page.wait_for_selector(f"{OPEN_ROWS} >> nth=2")
    count_rows(page)
    next_look(page, lambda: let_go(page))
    assert page.evaluate("window.least") == 3
    for video in made:
        fake_site.post(f"videos/{video}/cancel", {})
    assert page.faults == []


def test_a_job_that_goes_on_while_the_queue_is_read_stays_in_sight(
    fake_site: Site, open_page: Any
) -> None:
    long = [{"prompt": f"long {k}; steps=400 step=0.2"} for k in (1, 2)]
    first, second = (fake_site.post("videos", asked)["id"] for asked in long)
    wait_for(fake_site, first, "running")
    page = open_page(fake_site, "queue")
    page.wait_for_selector(f"{OPEN_ROWS} >> nth=1")
    count_rows(page)
    changed: list[str] = []

    def change(route: Any, video: str, then: Callable[[], None]) -> None:
        """Pause a job, once, before a call is passed on."""
        if video not in changed:
            changed.append(video)
            fake_site.post(f"videos/{video}/pause", {})
            wait_for(fake_site, video, "paused")
            then()
        route.continue_()

    begun = partial(wait_for, fake_site, second, "running")
    page.route(f"**{OPEN_JOBS}*", lambda route: change(route, first, begun))
    page.wait_for_selector(f'#page-queue tr[data-job="{first}"] >> text=Resume')
    page.route("**/api/videos?limit=100&state=assigned*",
               lambda route: change(route, second, lambda: None))  # fmt: skip
    page.wait_for_selector(f'#page-queue tr[data-job="{second}"] >> text=Resume')
    assert changed == [first, second]
    assert page.evaluate("window.least") == 2
    for video in (first, second):
        fake_site.post(f"videos/{video}/cancel", {})
    assert page.faults == []


def wait_for(site: Site, video: str, state: str) -> None:
    """Wait until a job is in a state."""
    eventually(lambda: site.get(f"videos/{video}")["state"] == state, f"{video} is not {state}")


def place(site: Site, video: str) -> int | None:
    """Return a job's place among those that wait."""
    found = site.get(f"videos/{video}")["queue_position"]
    return None if found is None else int(found)


def test_the_library_finds_trashes_and_restores(fake_site: Site, open_page: Any) -> None:
    one = fake_site.ended(fake_site.post("videos", {"prompt": "a zebra", "seed": 31})["id"])["id"]
    two = fake_site.ended(fake_site.post("videos", {"prompt": "a yak", "seed": 32})["id"])["id"]
    page = open_page(fake_site, f"library/{one}")
    page.wait_for_selector("vidgen-detail h2 >> text=a zebra")
    page.fill('#page-library input[type="search"]', "zebra")
    page.wait_for_selector(f'#page-library .vg-item[data-job="{two}"]', state="detached")
    page.fill("#detail-tags", "stripes, <b>")
    page.click("vidgen-detail >> text=Save")
    eventually(lambda: fake_site.get(f"videos/{one}")["tags"] == ["stripes", "<b>"], "no tags")
    page.click(f'#page-library .vg-item[data-job="{one}"] .vg-star')
    eventually(lambda: fake_site.get(f"videos/{one}")["starred"], "no star")
    page.click("vidgen-detail >> text=Move to trash")
    page.wait_for_selector(f'#page-library .vg-item[data-job="{one}"]', state="detached")
    page.select_option("#page-library select", "trash")
    page.wait_for_selector(f'#page-library .vg-item[data-job="{one}"]')
    page.click("vidgen-detail >> text=Restore")
    eventually(lambda: fake_site.get(f"videos/{one}")["trashed_at"] is None, "not restored")


def test_an_answer_that_comes_late_paints_over_nothing(fake_site: Site, open_page: Any) -> None:
    one = fake_site.ended(fake_site.post("videos", {"prompt": "a walrus"})["id"])["id"]
    two = fake_site.ended(fake_site.post("videos", {"prompt": "a weasel"})["id"])["id"]
    page = open_page(fake_site, "library")
    page.wait_for_selector(f'#page-library .vg-item[data-job="{two}"]')
    hold(page, "api/videos?", "walrus")
    page.fill('#page-library input[type="search"]', "walrus")
    page.wait_for_function("window.held")
    page.fill('#page-library input[type="search"]', "weasel")
    page.wait_for_selector(f'#page-library .vg-item[data-job="{one}"]', state="detached")
    let_go(page)
    assert page.locator(f'#page-library .vg-item[data-job="{one}"]').count() == 0
    assert page.locator(f'#page-library .vg-item[data-job="{two}"]').count() == 1
    hold(page, "api/videos/estimate", 'seconds":3')
    page.evaluate("location.hash = 'storyboard'")
    page.fill("#page-storyboard .vg-shot textarea", "a long one")
    page.fill("#page-storyboard .vg-shot .vg-two input >> nth=0", "3")
    page.wait_for_function("window.held")
    page.fill("#page-storyboard .vg-shot .vg-two input >> nth=0", "1")
    page.wait_for_selector("#page-storyboard p >> text=/= 1.0. s/")
    let_go(page)
    assert page.is_visible("#page-storyboard p >> text=/= 1.0. s/")
    assert page.faults == []


def hold(page: Any, path: str, words: str) -> None:
    """Have the page wait with one answer, which is all there: of the call that says the words."""
    page.evaluate(
        """([path, words]) => { const own = window.fetch; window.held = false;
        window.fetch = async (url, asked) => { const answer = await own(url, asked);
          if (window.held || !url.includes(path)
              || !(url + (asked?.body ?? "")).includes(words)) return answer;
          const text = await answer.text();
          answer.text = async () => text;
          await new Promise((done) => { window.letGo = done; window.held = true; });
          return answer; }; }""",
        [path, words],
    )


def let_go(page: Any) -> None:
    """Let the answer come, and be drawn: what follows from it alone is done before a frame is."""
    page.evaluate("() => { window.letGo(); return new Promise(requestAnimationFrame); }")


def test_a_dropped_clip_gives_its_settings_back(
    real_site: Site, open_page: Any, tmp_path: Path
) -> None:
    fields = {
        "prompt": "a small blue star",
        "seed": 5,
        "num_inference_steps": 2,
        "guidance_scale": 2,
    }
    made = real_site.ended(real_site.post("videos", fields)["id"])
    data = httpx.get(f"{real_site.address}/v1/videos/{made['id']}/content").content
    ours, foreign, broken = tmp_path / "ours.mp4", tmp_path / "gone.mp4", tmp_path / "broken.mp4"
    ours.write_bytes(data)
    write_foreign(foreign)
    broken.write_bytes(data[: len(data) // 2])
    page = open_page(real_site)
    page.set_input_files("vidgen-starters input[type=file]", ours)
    page.wait_for_function("document.querySelector('#field-prompt textarea').value !== ''")
    assert box(page, "prompt").input_value() == fields["prompt"]
    page.click("#advanced button >> nth=0")
    page.click("#group-sampling button >> nth=0")
    assert box(page, "num_inference_steps").input_value() == "2"
    assert box(page, "seed").input_value() == "5"
    page.set_input_files("vidgen-starters input[type=file]", foreign)
    page.wait_for_selector("#create-said .vg-problem")
    assert page.inner_text("#create-said .vg-problem") == "gone.mp4 carries no Vidgen recipe."
    page.set_input_files("vidgen-starters input[type=file]", broken)
    page.wait_for_selector(".vg-toast.vg-bad")
    assert page.inner_text(".vg-toast.vg-bad").startswith("broken.mp4 ")


def write_foreign(path: Path) -> None:
    """Write a film that no recipe is in."""
    with VideoWriter(path, width=32, height=32, fps=Fraction(8)) as writer:
        writer.write(np.zeros((9, 32, 32, 3), np.float32))
