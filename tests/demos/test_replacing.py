"""What is written in the form gives way only when that is said; what waits is changed there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.demos.site import Site
from tests.demos.test_create import box, filled
from tests.demos.test_drafts import FILLED

pytestmark = pytest.mark.slow
OWN = "my own words"
CARD = "a big red ball moves quickly left over the sand"


@pytest.fixture(scope="module")
def made(fake_site: Site) -> str:
    """Return a finished clip."""
    asked = {"prompt": "made before; steps=1", "seed": 3}
    return str(fake_site.ended(fake_site.post("videos", asked)["id"])["id"])


@pytest.fixture(scope="module")
def waiting(fake_site: Site) -> str:
    """Return a job that waits behind another one."""
    fake_site.post("videos", {"prompt": "it holds the worker; steps=900 step=0.3"})
    return str(fake_site.post("videos", {"prompt": "it waits", "seed": 4})["id"])


def show(page: Any, where: str) -> None:
    """Go to another page of the studio."""
    page.evaluate(f"location.hash = '{where}'")


def ways(page: Any, made: str, waiting: str, picture: Path) -> list[Callable[[], None]]:
    """Return all ways in which other things come into the form."""

    def press(where: str, button: str) -> Callable[[], None]:
        def pressed() -> None:
            show(page, where)
            page.click(button)

        return pressed

    def drop() -> None:
        show(page, "create")
        page.set_input_files("vidgen-starters input[type=file]", picture)

    row = f"#page-queue tr[data-job='{waiting}']"
    return [
        press("create", "text=From a text"),
        press("create", "text=From a picture"),
        drop,
        press(f"library/{made}", "vidgen-detail >> text=Reuse settings"),
        press(f"library/{made}", "vidgen-detail >> text=Use this frame"),
        press("queue", f"{row} >> text=Edit"),
    ]


def test_each_way_into_the_form_asks_first(
    fake_site: Site, open_page: Any, made: str, waiting: str, tmp_path: Path
) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "picture.png")
    page = open_page(fake_site)
    filled(page)
    box(page, "prompt").fill(OWN)
    box(page, "seed").fill("5")
    for way in ways(page, made, waiting, tmp_path / "picture.png"):
        way()
        said = page.inner_text("dialog p")
        assert f"“{OWN}”" in said
        where = page.evaluate("location.hash")
        page.click("dialog >> text=Cancel")
        page.wait_for_selector("dialog", state="detached")
        assert page.evaluate("location.hash") == where
        assert box(page, "prompt").input_value() == OWN
    assert page.locator(".vg-toast").count() == 0
    show(page, f"library/{made}")
    page.click("vidgen-detail >> text=Reuse settings")
    assert f"“{OWN}” and 1 more setting." in page.inner_text("dialog p")
    page.click("dialog >> text=Replace it")
    page.wait_for_function(FILLED % "made before; steps=1")
    assert page.evaluate("location.hash") == "#create"
    assert page.faults == []


def test_what_is_to_be_had_elsewhere_gives_way_unasked(
    fake_site: Site, open_page: Any, made: str
) -> None:
    page = open_page(fake_site)
    filled(page)
    page.click("text=From a text")  # nothing was written
    page.wait_for_function(FILLED % CARD)
    show(page, f"library/{made}")
    page.click("vidgen-detail >> text=Reuse settings")  # a card filled it
    page.wait_for_function(FILLED % "made before; steps=1")
    page.fill("#field-prompt textarea", "handed in; steps=1")
    page.wait_for_selector(".vg-preflight dl")
    page.click("#generate")
    page.wait_for_selector("vidgen-live h2 >> text=handed in")
    page.reload()  # and it is still known
    page.wait_for_function(FILLED % "handed in; steps=1")
    filled(page)
    page.click("text=From a text")  # a job was made of it
    page.wait_for_function(FILLED % CARD)
    page.fill("#field-seed :is(textarea, input)", "5")
    page.click("text=From a text")
    assert "seed 5" in page.inner_text("dialog p")
    page.click("dialog >> text=Replace it")
    page.wait_for_function("document.querySelector('#field-seed :is(textarea, input)').value > 6")
    assert page.locator("dialog").count() == 0
    assert page.faults == []


def test_what_was_refused_is_not_known(fake_site: Site, open_page: Any, tmp_path: Path) -> None:
    """Neither what the server did not take, nor what stayed as a file had no recipe."""
    Image.new("RGB", (32, 32)).save(tmp_path / "plain.png")
    page = open_page(fake_site)
    filled(page)
    box(page, "prompt").fill(OWN)
    box(page, "seconds").fill("1000")
    page.wait_for_selector("#create-form .vg-problem")
    page.click("#generate")
    page.wait_for_selector("#create-said .vg-problem")
    page.set_input_files("vidgen-starters input[type=file]", tmp_path / "plain.png")
    page.click("dialog >> text=Replace it")
    page.wait_for_selector("#create-said >> text=plain.png carries no Vidgen recipe.")
    assert box(page, "prompt").input_value() == OWN
    page.click("text=From a text")
    assert OWN in page.inner_text("dialog p")
    assert page.faults == []


def edit(page: Any, video: str, text: str) -> None:
    """Open a waiting job in the form and write something else."""
    show(page, "queue")
    page.click(f"#page-queue tr[data-job='{video}'] >> text=Edit")
    page.wait_for_selector("#save")
    page.fill("#field-prompt textarea", text)
    kept = "Object.values(localStorage).some(kept => kept.includes('%s'))"
    page.wait_for_function(kept % text)


def test_a_waiting_job_is_still_changed_after_a_reload(
    fake_site: Site, open_page: Any, waiting: str
) -> None:
    page = open_page(fake_site)
    filled(page)
    edit(page, waiting, "it waits still")
    page.reload()
    page.wait_for_function(FILLED % "it waits still")
    page.wait_for_selector("#create-said >> text=Save changes the waiting job.")
    page.click("#save")
    page.wait_for_selector("#create-said >> text=Saved")
    assert fake_site.get(f"videos/{waiting}")["prompt"] == "it waits still"
    page.click("text=From a text")  # what was saved is known
    page.wait_for_function(FILLED % CARD)
    page.wait_for_selector("#save", state="hidden")
    page.reload()
    page.wait_for_function(FILLED % CARD)
    filled(page)
    assert page.is_hidden("#save")
    assert page.faults == []


def test_a_job_that_no_longer_waits_is_not_changed_after_a_reload(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    filled(page)
    for what, why in (("cancel", "does not wait any more (cancelled)"), ("delete", "is gone")):
        video = fake_site.post("videos", {"prompt": "it is let go"})["id"]
        edit(page, video, f"written to {what}")
        if what == "cancel":
            fake_site.post(f"videos/{video}/cancel", {})
        else:
            httpx.delete(f"{fake_site.address}/v1/videos/{video}").raise_for_status()
        page.reload()
        page.wait_for_selector(f"#create-said >> text=The job that was being changed {why}; Gene")
        assert box(page, "prompt").input_value() == f"written to {what}"
        assert page.is_hidden("#save")
        page.reload()  # it is said once
        filled(page)
        assert "was being changed" not in page.inner_text("#create-said")
        page.click("#afresh")
        page.click("dialog >> text=Empty the form")
        page.wait_for_function(FILLED % "")
    assert page.faults == []


def test_the_job_to_change_belongs_to_the_draft(
    fake_site: Site, open_page: Any, waiting: str
) -> None:
    """A draft that was written on another page does not become the job's."""
    page = open_page(fake_site)
    filled(page)
    other = page.context.new_page()
    other.goto(f"{fake_site.address}/ui/")
    filled(other)
    edit(page, waiting, "for the job")
    box(other, "prompt").fill("for itself")
    other.wait_for_function("Object.values(localStorage).some(kept => kept.includes('itself'))")
    page.close()
    other.reload()
    other.wait_for_function(FILLED % "for itself")
    filled(other)
    assert other.is_hidden("#save")
    assert "Save changes" not in other.inner_text("#create-said")


def test_what_is_about_to_give_way_is_no_longer_the_jobs(
    fake_site: Site, open_page: Any, waiting: str
) -> None:
    page = open_page(fake_site)
    filled(page)
    edit(page, waiting, "for the job, again")
    page.route("**/gradio_api/**", lambda _: None)  # no answer comes any more
    page.click("text=From a text")
    page.click("dialog >> text=Replace it")
    page.wait_for_function(
        'Object.values(localStorage).some(kept => kept.includes(\'edited":""\'))'
    )
    address = page.url
    page.goto("about:blank")  # what is held back goes on when its route is taken away
    page.unroute("**/gradio_api/**")
    page.goto(address)
    page.wait_for_function(FILLED % "for the job, again")
    filled(page)
    assert page.is_hidden("#save")
