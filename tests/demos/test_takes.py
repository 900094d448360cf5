"""Storyboard: a card shows its last frame and its takes, and an older take can be looked at."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.demos.site import Site
from vidgen.media import read_frame

pytestmark = pytest.mark.slow
SHOTS = [{"prompt": f"shot {k}", "seconds": 1} for k in range(3)]
TREE = """card => { const read = list => [...list.children].map(item => [
    item.querySelector('button').dataset.take,
    ...read(item.querySelector('ul') ?? {children: []})]);
    return read(card.querySelector('.vg-takes > ul')); }"""
PIXELS = """canvas => [...canvas.getContext('2d')
    .getImageData(0, 0, canvas.width, canvas.height).data].filter((_, k) => k % 4 < 3)"""


@pytest.fixture(scope="module")
def boards(fake_site: Site) -> list[str]:
    """Return a storyboard, two re-rolls of its second card, and one of the first of these."""

    def ended(board: dict[str, Any]) -> str:
        assert fake_site.ended(board["id"])["state"] == "completed"
        return str(board["id"])

    first = ended(fake_site.post("storyboards", {"shots": SHOTS, "seed": 5}))
    reroll = f"storyboards/{first}/cards/1/reroll"
    second = ended(fake_site.post(reroll, {"seed": 6}))
    third = ended(fake_site.post(reroll, {"prompt": "another", "seed": 7, "rest": "render"}))
    fourth = ended(fake_site.post(f"storyboards/{second}/cards/1/reroll", {"seed": 8}))
    return [first, second, third, fourth]


def test_the_takes_of_a_card_are_a_tree_to_look_through(
    fake_site: Site, boards: list[str], open_page: Any
) -> None:
    first, _, third, _ = boards
    page = open_page(fake_site, f"storyboard/{third}")
    card = page.locator("[data-card='1']")
    card.locator(".vg-takes summary").click()
    assert card.evaluate(TREE) == [["1", ["2", ["4"]], ["3"]]]
    assert page.locator("[data-card='2']").evaluate(TREE) == [["1", ["2"]]]
    assert page.locator("[data-card='0'] .vg-takes").count() == 0
    film = card.locator("vidgen-film video")
    assert f"{third}/content?variant=clip-1" in film.get_attribute("src")
    card.locator("[data-take='1']").click()
    assert f"{first}/content?variant=clip-1" in film.get_attribute("src")
    card.locator("text=Open the storyboard of take 1").click()
    page.wait_for_function(f"location.hash === '#storyboard/{first}'")
    page.wait_for_selector("[data-card='1'] .vg-takes summary >> text=Take 1 of 4")
    assert page.faults == []


def test_a_stale_card_shows_the_take_that_was_there(
    fake_site: Site, boards: list[str], open_page: Any
) -> None:
    for board in (boards[1], boards[3]):
        page = open_page(fake_site, f"storyboard/{board}")
        film = page.locator("[data-card='2'][data-state='stale'] vidgen-film video")
        assert f"{boards[0]}/content?variant=clip-2" in film.get_attribute("src")


def test_a_card_shows_the_frame_that_its_clip_ends_on(
    fake_site: Site, boards: list[str], open_page: Any, tmp_path: Path
) -> None:
    clip = tmp_path / "clip.mp4"
    at = f"{fake_site.address}/v1/videos/{boards[0]}/content?variant=clip-2"
    clip.write_bytes(httpx.get(at).content)
    page = open_page(fake_site, f"storyboard/{boards[0]}")
    page.wait_for_selector("[data-card='2'] canvas[data-drawn]")
    seen = np.array(page.eval_on_selector("[data-card='2'] canvas", PIXELS)).reshape(32, 32, 3)
    apart = [float(np.abs(seen - 255 * read_frame(clip, k)).mean()) for k in range(8)]
    assert apart.index(min(apart)) == 7, apart


def test_a_shown_storyboard_can_be_copied(
    fake_site: Site, boards: list[str], open_page: Any
) -> None:
    page = open_page(fake_site, f"storyboard/{boards[2]}")
    page.click(".vg-copy summary")
    page.wait_for_selector(".vg-copy code >> nth=2")
    for name in ("CLI", "curl", "Python"):
        text = page.inner_text(f".vg-copy figure:has([data-vg-copy={name}]) code")
        assert "another" in text
        assert "shot 2" in text
