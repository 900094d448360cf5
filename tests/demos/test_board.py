"""Storyboard, in a browser: what is typed and taken out counts, and addresses that lead nowhere."""

from typing import Any

import httpx
import pytest

from tests.demos.site import Site, eventually

pytestmark = pytest.mark.slow
DRAFT = "#page-storyboard .vg-shot:not([data-card])"


def board_of(site: Site, *shots: dict[str, Any], **more: Any) -> str:
    """Return a storyboard that is made."""
    made = site.post("storyboards", {"shots": list(shots), **more})["id"]
    assert site.ended(made)["state"] == "completed"
    return str(made)


def shots_of(count: int) -> list[dict[str, Any]]:
    """Return shots that are made at once."""
    return [{"prompt": f"shot {k}; steps=1", "seconds": 1} for k in range(count)]


def opened(page: Any, board: str) -> str:
    """Wait until another storyboard is open and return it."""
    page.wait_for_function(f"!location.hash.includes('{board}')")
    return str(page.evaluate("location.hash").split("/")[1])


def test_a_card_that_is_typed_in_follows_its_board(fake_site: Site, open_page: Any) -> None:
    shots = [{"prompt": f"shot {k}; steps=200 step=0.2 gate=78", "seconds": 1} for k in (0, 1)]
    board = fake_site.post("storyboards", {"shots": shots})["id"]
    page = open_page(fake_site, f"storyboard/{board}")
    page.wait_for_selector("[data-card='0'][data-state='making']")
    page.click("[data-card='1'] textarea")
    page.keyboard.press("Control+A")
    page.keyboard.type("half a")
    (fake_site.home / "gate-78").touch()
    page.wait_for_selector("[data-card='1'][data-state='made'] .vg-badge >> text=made")
    page.wait_for_selector("[data-card='0'] vidgen-film")
    page.keyboard.type(" word; steps=1")
    assert page.input_value("[data-card='1'] textarea") == "half a word; steps=1"
    page.wait_for_selector("#page-storyboard >> text=Stop and keep", state="detached")
    page.click("[data-card='1'] >> text=/^Re-roll$/")
    again = opened(page, board)
    assert fake_site.get(f"storyboards/{again}")["cards"][1]["prompt"] == "half a word; steps=1"
    fake_site.ended(again)
    assert page.faults == []


def test_what_is_taken_out_of_a_card_is_a_change(fake_site: Site, open_page: Any) -> None:
    first, second = shots_of(2)
    board = board_of(fake_site, first, {**second, "transition": "cut"})
    page = open_page(fake_site, f"storyboard/{board}")
    card = page.locator("[data-card='1']")
    card.locator("textarea").fill("")
    assert card.locator("text=Changed: re-roll it").is_visible()
    card.locator("text=/^Re-roll$/").click()
    card.locator(".vg-problem >> text=Write what shot 2 shows.").wait_for()
    card.locator("textarea").fill(second["prompt"])
    assert card.locator(".vg-problem").is_hidden()
    assert card.locator("text=Changed: re-roll it").is_hidden()
    card.locator("input[type=number]").fill("")
    card.locator("text=/^Re-roll$/").click()
    card.locator(".vg-problem >> text=Write how many seconds shot 2 takes.").wait_for()
    card.locator("input[type=number]").fill("1")
    card.locator("select").select_option("")
    assert card.locator("text=Changed: re-roll it").is_visible()
    card.locator("text=/^Re-roll$/").click()
    again = opened(page, board)
    assert fake_site.get(f"storyboards/{again}")["cards"][1]["transition"] == "continue"
    fake_site.ended(again)
    assert page.faults == []


@pytest.mark.parametrize("item", ["../queue", "../videos", "video_0gone", "a clip"])
def test_an_address_that_leads_to_no_storyboard_says_so(
    item: str, fake_site: Site, open_page: Any
) -> None:
    if item == "a clip":
        item = fake_site.ended(fake_site.post("videos", {"prompt": "one; steps=1"})["id"])["id"]
    page = open_page(fake_site, "library")
    page.evaluate(f"location.hash = 'storyboard/{item}'")
    page.wait_for_selector(".vg-toast:has-text('; the draft is open instead.')")
    page.wait_for_selector(DRAFT)
    page.fill(f"{DRAFT} textarea", "it is alive")
    assert page.evaluate("location.hash") == "#storyboard"
    page.go_back()
    page.wait_for_selector("#page-library h1 >> visible=true")
    assert page.evaluate("location.hash") == "#library"
    assert page.faults == []


def test_a_copy_as_a_draft_takes_the_settings_along(fake_site: Site, open_page: Any) -> None:
    request = {"num_inference_steps": 7, "size": "64x48"}
    board = board_of(fake_site, *shots_of(2), seed=2**62 + 1, request=request)
    page = open_page(fake_site, f"storyboard/{board}")
    page.click("#page-storyboard >> text=Copy as a draft")
    page.wait_for_selector(f"{DRAFT} >> nth=1")
    page.click("#render-board")
    page.wait_for_selector("[data-card='1']")
    made = page.evaluate("location.hash").split("/")[1]
    told = [fake_site.get(f"storyboards/{one}")["story"] for one in (board, made)]
    assert told[0] == told[1]
    fake_site.ended(made)
    assert page.faults == []


def test_a_job_becomes_the_shots_it_was_made_of(fake_site: Site, open_page: Any) -> None:
    first, second = shots_of(2)
    board = board_of(fake_site, first, {**second, "seconds": 3, "transition": "cut"})
    asked = {"prompt": "two lines\nof one clip; steps=1", "seconds": 2}
    clip = fake_site.ended(fake_site.post("videos", asked)["id"])["id"]
    page = open_page(fake_site, f"library/{clip}")
    page.wait_for_selector("vidgen-detail h2 >> text=two lines of one clip; steps=1")
    assert "more shot" not in page.inner_text("vidgen-detail h2")
    page.click("vidgen-detail >> text=To storyboard")
    page.wait_for_selector(f"{DRAFT} >> nth=0")
    assert page.locator(DRAFT).count() == 1
    page.evaluate(f"location.hash = 'library/{board}'")
    page.click("vidgen-detail >> text=To storyboard")
    page.wait_for_selector(f"{DRAFT} >> nth=2")
    seconds = [box.input_value() for box in page.locator(f"{DRAFT} input[type=number]").all()]
    assert seconds == ["2", "1", "3"]
    assert page.input_value(f"{DRAFT} >> nth=0 >> textarea") == asked["prompt"]
    assert page.input_value(f"{DRAFT} >> nth=2 >> select") == "cut"
    assert page.faults == []


def test_seconds_that_are_taken_out_stay_out(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site, "storyboard")
    page.fill(f"{DRAFT} textarea", "a shot")
    page.fill(f"{DRAFT} input[type=number]", "")
    page.click("text=Add a shot")
    page.wait_for_selector(f"{DRAFT} >> nth=1")
    assert page.input_value(f"{DRAFT} >> nth=0 >> input[type=number]") == ""
    assert page.input_value(f"{DRAFT} >> nth=1 >> input[type=number]") == "1"


def test_a_comparison_shows_each_clip_once_and_says_how_many(
    fake_site: Site, open_page: Any
) -> None:
    asked = [{"prompt": f"clip {k}; steps=1"} for k in range(5)]
    made = [fake_site.post("videos", one)["id"] for one in asked]
    for video in made:
        fake_site.ended(video)
    page = open_page(fake_site, f"compare/{made[0]},{made[0]},{made[1]}")
    films = page.locator("vidgen-compare video[data-video]")
    page.wait_for_selector("vidgen-compare video[data-video] >> nth=1")
    assert films.count() == 2
    page.click("[aria-label='Remove clip 1']")
    eventually(lambda: films.count() == 1, "it stays")
    assert films.get_attribute("data-video") == made[1]
    page.evaluate(f"location.hash = 'compare/{','.join(made)}'")
    page.wait_for_selector(".vg-toast >> text=Of 5 clips the first four are shown")
    eventually(lambda: films.count() == 4, "not four")
    httpx.delete(f"{fake_site.address}/v1/videos/{made[4]}").raise_for_status()
    page.evaluate(f"location.hash = 'compare/{made[0]},{made[4]}'")
    page.wait_for_selector(".vg-toast >> text=A clip that was compared is gone.")
    page.wait_for_function(f"location.hash === '#compare/{made[0]}'")
    page.go_back()
    page.wait_for_function(f"location.hash === '#compare/{','.join(made)}'")
    assert page.faults == []
