"""Compare, in a browser: figures under the players, votes without names, files to keep."""

import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.demos.site import Site
from vidgen.media import probe_video, read_video

pytestmark = pytest.mark.slow
NOT_RANDOM = "() => { let k = 0; crypto.getRandomValues = (a) => { a[0] = k++; return a; }; }"
LEFT = "new URL(document.querySelector('vidgen-blind video').src).pathname.split('/')[4]"


@pytest.fixture(scope="module")
def three(fake_site: Site) -> list[str]:
    """Return two clips of different seeds, and one that is shorter."""
    asked = [("a pair; frames=17", 1, 17), ("a pair; frames=17", 4, 17), ("it; frames=9", 1, 9)]
    made = [fake_site.post("videos", {"prompt": p, "seed": s, "num_frames": n})["id"]
            for p, s, n in asked]  # fmt: skip
    for video in made:
        assert fake_site.ended(video)["state"] == "completed"
    return made


def psnr(site: Site, one: str, two: str, folder: Path) -> list[float]:
    """Return the PSNR in dB of each frame, from the files."""
    clips = []
    for video in (one, two):
        path = folder / f"{video}.mp4"
        path.write_bytes(httpx.get(f"{site.address}/v1/videos/{video}/content").content)
        clips.append(np.concatenate(list(read_video(path))).astype(np.float64))
    errors = np.square(clips[0] - clips[1]).mean(axis=(1, 2, 3))
    return [float(value) for value in -10 * np.log10(errors)]


def test_psnr_and_ssim_are_drawn_under_the_players(
    fake_site: Site, three: list[str], open_page: Any, tmp_path: Path
) -> None:
    page = open_page(fake_site, f"compare/{three[0]},{three[1]}")
    page.click("#measure")
    page.wait_for_selector("[aria-label='PSNR and SSIM'] .vg-plot >> nth=1")
    wanted = psnr(fake_site, three[0], three[1], tmp_path)
    cells = page.inner_text("[aria-label='PSNR and SSIM'] tbody").split("\t")
    assert float(cells[2].split()[0]) == pytest.approx(min(wanted), abs=0.01)
    assert int(cells[5]) == wanted.index(min(wanted)) + 1
    points = page.get_attribute(".vg-plot polyline >> nth=0", "points").split(" ")
    heights = [-float(point.split(",")[1]) for point in points]
    assert np.corrcoef(heights, wanted)[0, 1] > 0.999
    plot = page.locator(".vg-plot svg >> nth=0")
    plot.click(position={"x": plot.bounding_box()["width"] * 5 / 16, "y": 20})
    page.wait_for_selector("#page-compare output >> text=frame 6 of 17")
    mark = float(page.get_attribute(".vg-plot .vg-line-place >> nth=0", "x1"))
    assert mark == pytest.approx(100 * 5 / 16, abs=0.1)
    assert page.faults == []


def test_clips_of_other_lengths_say_why_not(
    fake_site: Site, three: list[str], open_page: Any
) -> None:
    page = open_page(fake_site, f"compare/{three[0]},{three[2]}")
    page.wait_for_selector(".vg-unlike")
    said = page.inner_text(".vg-unlike")
    assert said.startswith("Clip 2 differs from clip 1 in length (9 against 17 frames)")
    assert page.locator("#measure").count() == 0


def test_a_vote_is_blind_and_counted_for_the_clip_and_not_the_side(
    fake_site: Site, three: list[str], open_page: Any
) -> None:
    page = open_page(fake_site, f"compare/{three[0]},{three[1]}")
    page.evaluate(NOT_RANDOM)
    page.click("#blind-vote")
    sides = set()
    for lap in range(3):
        page.wait_for_selector(f"vidgen-blind h2 >> text=Round {lap + 1}")
        left = page.evaluate(LEFT)
        sides.add(left)
        page.click(f"[data-choice='{'0' if left == three[1] else '1'}']")
    page.wait_for_selector("vidgen-blind h2 >> text=Round 4")
    room = page.inner_html("#page-compare vidgen-blind")
    assert not re.search(r"seed|a pair|[Cc]lip 1|data-video", room)
    assert page.locator("#page-compare [aria-label='What differs']").count() == 0
    page.click("[data-choice='none']")
    page.click("#blind-end")
    page.wait_for_selector(".vg-tally")
    assert sides == set(three[:2])
    counted = page.inner_text(".vg-tally").split("\n")
    assert counted == ["seed 1 is better", "0", "seed 4 is better", "3", "no difference", "1"]
    told = page.inner_text("[aria-label='Blind votes'] p")
    assert "3 to 0 would come 25 times in 100" in told  # 2 / 2^3
    page.reload()
    page.wait_for_selector("h2 >> text=Blind votes: 4")
    page.evaluate(f"location.hash = 'compare/{three[1]},{three[0]}'")
    page.wait_for_function(
        "document.querySelector('.vg-tally')?.innerText.startsWith('seed 4 is better\\n3')"
    )
    page.click("text=Forget these answers")
    page.wait_for_selector(".vg-tally", state="detached")
    assert page.faults == []


def test_the_comparison_is_saved_as_a_film_and_as_a_picture(
    fake_site: Site, three: list[str], open_page: Any, tmp_path: Path
) -> None:
    page = open_page(fake_site, f"compare/{','.join(three)}")
    for button, name in (("#save-film", "compare.mp4"), ("#save-sheet", "compare.png")):
        with page.expect_download() as waited:
            page.click(button)
        assert waited.value.suggested_filename == name
        waited.value.save_as(tmp_path / name)
    info = probe_video(tmp_path / "compare.mp4")
    assert (info.width, info.num_frames) == (3 * 256, 17)
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_a_clip_that_is_gone_is_taken_out(
    fake_site: Site, three: list[str], open_page: Any
) -> None:
    """Also the last one, which leaves the address as it is."""
    page = open_page(fake_site)
    store = "import('/ui/web/store.js').then(store => store.%s)"
    page.evaluate(store % "remember('compare', ['video_0gone'])")
    page.evaluate("location.hash = 'compare'")
    page.wait_for_selector("vidgen-compare >> text=Choose two to four clips")
    assert page.evaluate(store % "remembered('compare')") == []
    page.evaluate(f"location.hash = 'compare/{three[0]},video_0gone'")
    page.wait_for_selector(f"vidgen-compare video[data-video='{three[0]}']")
    assert page.evaluate(store % "remembered('compare')") == [three[0]]
    assert page.faults == []
