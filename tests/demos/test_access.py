"""Everyone can use it: axe finds nothing serious, nothing is too wide, keys suffice."""

from typing import Any

import pytest

from tests.demos.site import Site

pytestmark = pytest.mark.slow
# What is drawn when all of a page is.
PAGES = {
    "create": "vidgen-live [data-job]",
    "storyboard": "#page-storyboard p >> text=Write what each shot shows.",
    "queue": "#page-queue section >> nth=1 >> tr[data-job] >> nth=0",
    "library": "#page-library .vg-item >> nth=0",
    "compare": "#page-compare >> text=Choose two to four clips",
    "system": "#page-system .vg-model >> nth=0",
}
LOOKS = [("light", 1440), ("dark", 390)]


@pytest.fixture(scope="module")
def filled(fake_site: Site) -> tuple[Site, list[str]]:
    """Return a server with clips that ended in all ways, one that waits, and a re-rolled story."""
    prompts = ("a fine one", "another; frames=12", "it fails; error@0=9")
    made = [fake_site.post("videos", {"prompt": text})["id"] for text in prompts]
    for video in made:
        fake_site.ended(video)
    fake_site.post("videos", {"prompt": "it waits", "hold": True})
    shots = [{"prompt": f"shot {k}", "seconds": 1} for k in range(2)]
    board = fake_site.ended(fake_site.post("storyboards", {"shots": shots})["id"])["id"]
    retold = fake_site.post(f"storyboards/{board}/cards/0/reroll", {})["id"]
    return fake_site, [*made[:2], fake_site.ended(retold)["id"]]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_axe_finds_nothing_serious(
    filled: tuple[Site, list[str]], open_page: Any, theme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    site, (one, two, story) = filled
    page = open_page(site, "create", width, theme)
    found = {}
    items = {
        f"library/{one}": "vidgen-detail video",
        f"compare/{one},{two}": "#page-compare [data-video] >> nth=1",
        f"storyboard/{story}": "#page-storyboard .vg-stage video",  # behind the cards
    }
    for place, drawn in (PAGES | items).items():
        page.evaluate(f"location.hash = '{place}'")
        page.wait_for_selector(drawn)
        page.evaluate("document.querySelectorAll('.vg-takes').forEach(item => (item.open = true))")
        results = axe.run(page).response["violations"]
        serious = [
            (item["id"], node["html"][:160])
            for item in results if item["impact"] in ("serious", "critical")
            for node in item["nodes"]
        ]  # fmt: skip
        if serious:
            found[place] = serious
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (place, wide)
    assert found == {}
    assert page.faults == []


def test_a_clip_is_made_with_keys_alone(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    page.focus("#field-prompt textarea")
    page.keyboard.type("by keys alone")
    page.wait_for_selector(".vg-preflight dl")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "generate":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("vidgen-live h2 >> text=by keys alone")
    page.wait_for_selector("vidgen-player video")
