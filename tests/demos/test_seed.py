"""Create goes on from a clip: its seed is kept while it is wanted, its frame begins another."""

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.demos.site import Site, eventually
from tests.demos.test_create import ask, box
from vidgen.media import read_frame

pytestmark = pytest.mark.slow


def made(site: Site, page: Any, prompt: str) -> dict[str, Any]:
    """Press Generate; return the job when it has ended and is shown."""
    before = {video["id"] for video in site.get("videos", limit=100)["data"]}
    ask(page, prompt)

    def new() -> list[dict[str, Any]]:
        found = site.get("videos", limit=100)["data"]
        return [video for video in found if video["id"] not in before]

    eventually(new, "no job was made")
    page.wait_for_selector(f'vidgen-live [data-job="{new()[0]["id"]}"] vidgen-player video')
    return new()[0]


def test_a_seed_is_kept_until_it_is_let_go(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    seed = box(page, "seed")
    first = made(fake_site, page, "one; steps=1")
    second = made(fake_site, page, "two; steps=1")
    assert first["seed"] != second["seed"]
    page.wait_for_selector(f"#keep-seed >> text=Keep seed {second['seed']}")
    page.click("#keep-seed")
    assert seed.input_value() == str(second["seed"])
    assert [made(fake_site, page, f"kept {k}; steps=1")["seed"] for k in (1, 2)] == [
        second["seed"]
    ] * 2
    page.click("#dice")
    drawn = int(seed.input_value())
    assert drawn != second["seed"]
    assert [made(fake_site, page, f"drawn {k}; steps=1")["seed"] for k in (1, 2)] == [drawn] * 2
    page.click("#keep-seed[aria-pressed='true']")
    assert seed.input_value() == ""
    page.click("#dice")
    once = int(seed.input_value())
    assert made(fake_site, page, "once; steps=1")["seed"] == once
    page.wait_for_function(
        "document.querySelector('#field-seed :is(textarea, input)').value === ''"
    )
    assert made(fake_site, page, "again; steps=1")["seed"] != once
    assert page.faults == []


def test_a_frame_of_a_clip_begins_another(fake_site: Site, open_page: Any, tmp_path: Path) -> None:
    page = open_page(fake_site)
    box(page, "seed").fill("21")
    clip = made(fake_site, page, "it goes on; frames=17")
    film = tmp_path / "film.mp4"
    film.write_bytes(httpx.get(f"{fake_site.address}/v1/videos/{clip['id']}/content").content)
    page.eval_on_selector(
        "vidgen-player video", "media => { media.pause(); media.currentTime = 0; }"
    )
    for number in (2, 3, 4):
        page.click("vidgen-player >> text=frame ▶")
        page.wait_for_selector(f"vidgen-player .vg-frame >> text=frame {number} of 17")
    page.click("vidgen-player >> text=Use this frame")
    page.wait_for_selector("vidgen-drop[field='image'] img")
    name = box(page, "image").input_value()
    at = f"{fake_site.address}/v1/uploads/{name.removeprefix('upload:')}/content"
    pixels = np.asarray(Image.open(io.BytesIO(httpx.get(at).content)))
    wanted = np.rint(255 * read_frame(film, 3))
    assert np.array_equal(pixels, wanted)
    assert box(page, "prompt").input_value() == "it goes on; frames=17"
    assert box(page, "seed").input_value() == "21"  # it was kept
    page.click("vidgen-player >> text=frame ▶")
    page.eval_on_selector("vidgen-player", "player => player.step(12)")
    page.wait_for_selector("vidgen-player .vg-frame >> text=frame 17 of 17")
    page.click("vidgen-player >> text=Use this frame")
    page.wait_for_function(
        f"document.querySelector('#field-image :is(textarea, input)').value === 'job:{clip['id']}'"
    )
    again = made(fake_site, page, "further; steps=1")
    assert again["request"]["image"] == f"job:{clip['id']}"
    assert page.faults == []


def test_a_long_seed_keeps_all_its_digits(fake_site: Site, open_page: Any) -> None:
    long = 2**62 + 1  # the nearest that a browser's numbers hold is 2**62
    asked = {"prompt": "a long seed; steps=1", "seed": long}
    clip = fake_site.ended(fake_site.post("videos", asked)["id"])
    page = open_page(fake_site, f"library/{clip['id']}")
    page.wait_for_selector(f"vidgen-detail .vg-chips >> text=seed {long}")
    page.click("vidgen-detail >> text=Dense against top-k")
    page.wait_for_function("location.hash.startsWith('#compare/')")
    for video in page.evaluate("location.hash").split("/")[1].split(","):
        assert fake_site.get(f"videos/{video}")["seed"] == long
    page.evaluate("location.hash = 'storyboard'")
    page.fill("#page-storyboard .vg-shot textarea", "a long seed; steps=1")
    page.fill("#page-storyboard .vg-shot .vg-two input >> nth=1", str(long))
    page.click(".vg-copy summary")
    page.wait_for_selector(f".vg-copy code >> text={long} >> nth=2")
    page.click("#render-board")
    page.wait_for_selector("[data-card='0']")
    board = page.evaluate("location.hash").split("/")[1]
    assert fake_site.get(f"storyboards/{board}")["story"]["shots"][0]["seed"] == long
    page.click("#page-storyboard >> text=Copy as a draft")
    page.wait_for_selector("#render-board")
    seed = page.input_value("#page-storyboard .vg-shot .vg-two input >> nth=1")
    assert seed == str(long)
    assert page.faults == []


TEXTS = r"""[["9007199254740991", 9007199254740991], ["9007199254740993", "9007199254740993"],
["-9223372036854775808", "-9223372036854775808"], ["0.12345678901234567890", 0.123456789012345678],
["1e300", 1e300], ["\"9007199254740993\"", "9007199254740993"], ["no", null],
["{\"a 9007199254740993\": [9007199254740993]}", {"a 9007199254740993": ["9007199254740993"]}],
["\"\\\\\"", "\\"], ["\"a \\\" 9007199254740993, \"", "a \" 9007199254740993, "]]"""


def test_only_what_a_browser_cannot_hold_becomes_text(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    wrong = page.evaluate(
        f"""import('/ui/web/lib.js').then(({{ read }}) => {TEXTS}.filter(([text, wanted]) =>
        JSON.stringify(read(text)) !== JSON.stringify(wanted)))"""
    )
    assert wrong == []
