"""Library, its detail and the queue, in a browser: nothing typed or shown is lost."""

from typing import Any

import httpx
import pytest

from tests.demos.site import Site, eventually

pytestmark = pytest.mark.slow
ITEMS = "#page-library .vg-item"


@pytest.fixture(scope="module")
def many(fake_site: Site) -> list[str]:
    """Return 50 finished clips, the newest first."""
    made = [fake_site.post("videos", {"prompt": f"many {k}; steps=1"})["id"] for k in range(50)]
    for video in made:
        assert fake_site.ended(video)["state"] == "completed"
    return made[::-1]


def shown(page: Any) -> list[str]:
    """Return the jobs of the library as they stand there."""
    found: list[str] = page.eval_on_selector_all(ITEMS, "all => all.map(item => item.dataset.job)")
    return found


def test_a_dialog_keeps_what_was_typed_until_it_is_taken(fake_site: Site, open_page: Any) -> None:
    made = fake_site.ended(fake_site.post("videos", {"prompt": "to extend; steps=1"})["id"])["id"]
    page = open_page(fake_site, f"library/{made}")
    page.click("vidgen-detail >> text=Extend…")
    page.fill("#ask-prompt", "it goes on; steps=1")
    page.fill("#ask-seconds", "9999")
    page.click("dialog >> text=/^Extend$/")
    page.wait_for_selector("dialog [role=alert] >> text=600")
    assert page.input_value("#ask-prompt") == "it goes on; steps=1"
    assert page.input_value("#ask-seconds") == "9999"
    page.fill("#ask-seconds", "")
    page.click("dialog >> text=/^Extend$/")
    page.wait_for_selector("dialog [role=alert] >> text=Seconds to add is missing")
    page.fill("#ask-seconds", "1.5")
    page.click("dialog >> text=/^Extend$/")
    page.wait_for_selector("dialog", state="detached")
    page.wait_for_function("location.hash === '#create'")
    child = fake_site.get("videos", parent=made)["data"][0]
    assert child["prompt"].endswith("it goes on; steps=1")
    fake_site.ended(child["id"])
    assert page.locator(".vg-toast").count() == 0
    assert page.faults == []


def test_a_title_that_is_not_saved_stays(fake_site: Site, open_page: Any) -> None:
    made = fake_site.ended(fake_site.post("videos", {"prompt": "to name; steps=1"})["id"])["id"]
    page = open_page(fake_site, f"library/{made}")
    page.fill("#detail-title", "half a name")
    page.fill("#detail-tags", "one, two")

    def check() -> None:
        page.wait_for_selector("vidgen-detail >> text=Not kept yet.")
        assert page.input_value("#detail-title") == "half a name"
        assert page.input_value("#detail-tags") == "one, two"

    page.click("vidgen-detail >> text=/^Star$/")
    page.wait_for_selector("vidgen-detail >> text=/^Unstar$/")
    check()
    page.evaluate("location.hash = 'queue'")
    page.evaluate(f"location.hash = 'library/{made}'")
    check()
    page.reload()
    check()
    page.click("vidgen-detail >> text=/^Save$/")
    page.wait_for_selector("vidgen-detail h2 >> text=half a name")
    assert page.is_hidden("vidgen-detail >> text=Not kept yet.")
    assert fake_site.get(f"videos/{made}")["tags"] == ["one", "two"]
    page.fill("#detail-title", "another")
    page.click("vidgen-detail >> text=Discard what is typed")
    assert page.input_value("#detail-title") == "half a name"
    page.reload()
    page.wait_for_selector("vidgen-detail h2 >> text=half a name")
    assert page.input_value("#detail-title") == "half a name"
    assert page.faults == []


def test_more_is_shown_though_the_last_one_is_gone(
    fake_site: Site, many: list[str], open_page: Any
) -> None:
    page = open_page(fake_site)
    page.evaluate("location.hash = 'library'")
    page.wait_for_selector(f"{ITEMS} >> nth=23")
    page.focus(f"{ITEMS} >> nth=0 >> .vg-open")  # it looks for nothing new meanwhile
    httpx.delete(f"{fake_site.address}/v1/videos/{shown(page)[-1]}").raise_for_status()
    gone = shown(page)[-1]
    page.click("#page-library >> text=Show more")
    page.wait_for_selector(f"{ITEMS} >> nth=40")
    assert gone not in shown(page)
    assert len(set(shown(page))) == len(shown(page))
    assert page.locator(".vg-toast").count() == 0
    assert page.faults == []


def test_a_star_leaves_the_list_and_the_focus_where_they_are(
    fake_site: Site, many: list[str], open_page: Any
) -> None:
    page = open_page(fake_site, "library")
    page.wait_for_selector(f"{ITEMS} >> nth=23")
    page.click("#page-library >> text=Show more")
    page.wait_for_selector(f"{ITEMS} >> nth=47")
    before = shown(page)
    video = before[30]
    with page.expect_response(lambda answer: "after=" in answer.url):  # all are read again
        page.click(f"{ITEMS}[data-job='{video}'] .vg-star")
    page.wait_for_selector(f"{ITEMS}[data-job='{video}'] .vg-star[aria-pressed=true]")
    focused = (
        "document.activeElement.matches('.vg-star') && "
        "document.activeElement.closest('[data-job]').dataset.job"
    )
    page.wait_for_function(f"({focused}) === '{video}'")
    assert shown(page) == before
    assert page.faults == []


def test_what_is_deleted_for_good_is_asked_for(fake_site: Site, open_page: Any) -> None:
    made = fake_site.ended(fake_site.post("videos", {"prompt": "to end; steps=1"})["id"])["id"]
    fake_site.post(f"videos/{made}/trash", {})
    page = open_page(fake_site, f"library/{made}")
    page.click("vidgen-detail >> text=Delete for good")
    assert "“to end; steps=1”" in page.inner_text("dialog p")
    page.click("dialog >> text=Cancel")
    page.wait_for_selector("dialog", state="detached")
    assert fake_site.get(f"videos/{made}")["id"] == made
    page.click("vidgen-detail >> text=Delete for good")
    page.click("dialog >> text=Delete it")
    page.wait_for_function("location.hash === '#library'")

    def gone() -> bool:
        return httpx.get(f"{fake_site.address}/v1/videos/{made}").status_code in (404, 410)

    eventually(gone, "it is there")
    assert page.faults == []


def test_the_queue_offers_what_it_speaks_of(fake_site: Site, open_page: Any) -> None:
    held = fake_site.post("videos", {"prompt": "held", "hold": True})["id"]
    paused = fake_site.post("videos", {"prompt": "paused", "hold": True})["id"]
    fake_site.post(f"videos/{paused}/pause", {})
    stopped = fake_site.post("videos", {"prompt": "stopped", "hold": True})["id"]
    fake_site.post(f"videos/{stopped}/cancel", {})
    page = open_page(fake_site, "queue")
    row = "#page-queue tr[data-job='%s']"
    for video in (held, paused):
        page.wait_for_selector(f"{row % video} >> text=/^Edit$/")
    page.wait_for_selector(f"{row % stopped} >> text=resume it")
    page.click(f"{row % paused} >> text=/^Edit$/")
    page.wait_for_selector("#save")
    page.evaluate("location.hash = 'library'")
    page.select_option("#page-library select", "open")
    page.wait_for_selector(f"{ITEMS}[data-job='{held}']")
    query = "document.querySelector('vidgen-library').query().getAll('state')"
    states = set(page.evaluate(query))
    going = {"assigned", "running", "retrying", "cancelling", "finalizing"}
    waiting = {"queued", "held", "interrupted", "paused"}
    assert states == going | waiting | {"failed", "cancelled", "expired"}
    page.evaluate("location.hash = 'queue'")
    page.click(f"{row % stopped} >> text=/^Resume$/")
    eventually(lambda: fake_site.get(f"videos/{stopped}")["state"] != "cancelled", "it stays")
    assert page.faults == []
    fake_site.let_go()


def test_a_job_that_goes_on_is_followed_beside_the_library(fake_site: Site, open_page: Any) -> None:
    video = fake_site.post("videos", {"prompt": "it goes on; steps=60 step=0.1", "seed": 5})["id"]
    page = open_page(fake_site, f"library/{video}")
    page.wait_for_selector("vidgen-detail .vg-state >> text=step")
    assert page.locator("vidgen-detail .vg-problem").count() == 0
    assert page.locator("vidgen-detail >> text=Retry").count() == 0
    page.wait_for_selector("vidgen-detail vidgen-player video")
    assert page.locator("vidgen-detail .vg-state").count() == 0
    assert page.faults == []
