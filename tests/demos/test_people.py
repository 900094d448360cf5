"""Who writes where: people who sign in in turn, tabs side by side, a browser that is full."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.demos.conftest import WAIT_MS
from tests.demos.site import Site, eventually
from tests.demos.test_create import box, filled
from tests.demos.test_drafts import FILLED, LEFT

pytestmark = pytest.mark.slow
KEPT = "Object.values(localStorage).some(kept => kept.includes('%s'))"


@pytest.fixture
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server of its own, for keys shut others out; nobody works for it."""
    site = Site(tmp_path_factory.mktemp("people"))
    site.start()
    site.kill("worker")
    yield site
    site.stop()


def key_of(site: Site, tenant: str, admin: str = "") -> dict[str, Any]:
    """Make a key."""
    head = {"Authorization": f"Bearer {admin}"} if admin else {}
    asked = {"name": tenant, "tenant": tenant, "scopes": ["create", "read", "admin"]}
    answer = httpx.post(f"{site.address}/v1/keys", json=asked, headers=head)
    answer.raise_for_status()
    return dict(answer.json())


def sign_in(page: Any, key: str) -> None:
    page.fill("#key", key)
    page.click("text=Sign in")
    page.wait_for_url("**/ui/")
    filled(page)


def prompts(site: Site, key: str) -> list[str]:
    head = {"Authorization": f"Bearer {key}"}
    found = httpx.get(f"{site.address}/v1/videos", headers=head).json()["data"]
    return [video["prompt"] for video in found]


def test_each_person_has_what_they_wrote_and_nobody_else(own_site: Site, open_page: Any) -> None:
    page = open_page(own_site)
    filled(page)
    box(page, "prompt").fill("written before there were keys")
    page.wait_for_function(KEPT % "before there were keys")
    one = key_of(own_site, "one")
    two = key_of(own_site, "two", one["key"])
    gate = f"{own_site.address}/ui/"
    eventually(lambda: httpx.get(gate).status_code == 303, "the gate does not close")
    page.reload()
    sign_in(page, one["key"])
    page.wait_for_function(FILLED % "written before there were keys")
    other = page.context.new_page()
    other.set_default_timeout(WAIT_MS)
    other.goto(f"{own_site.address}/ui/")
    other.click("text=Sign out")
    other.wait_for_url("**/ui/login")
    sign_in(other, two["key"])
    assert box(other, "prompt").input_value() == ""
    page.wait_for_selector("vidgen-strip >> text=no longer is; reload this page.")
    page.click("#generate")
    page.wait_for_selector("#create-said >> text=no longer is, so nothing was sent")
    assert prompts(own_site, one["key"]) == prompts(own_site, two["key"]) == []
    newer = key_of(own_site, "one", one["key"])
    other.click("text=Sign out")
    other.wait_for_url("**/ui/login")
    sign_in(other, newer["key"])  # the same people by another key
    other.wait_for_function(FILLED % "written before there were keys")


def test_each_tab_keeps_its_own(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    filled(page)
    other = page.context.new_page()
    other.set_default_timeout(WAIT_MS)
    other.goto(f"{fake_site.address}/ui/")
    filled(other)
    box(page, "prompt").fill("in the first tab")
    page.wait_for_function(KEPT % "in the first tab")
    box(other, "prompt").fill("in the second tab")
    other.wait_for_function(KEPT % "in the second tab")
    for tab, text in ((page, "in the first tab"), (other, "in the second tab")):
        tab.reload()
        tab.wait_for_function(FILLED % text)


def test_a_browser_that_is_full_says_so_and_brings_nothing_old_back(
    fake_site: Site, open_page: Any
) -> None:
    page = open_page(fake_site)
    filled(page)
    box(page, "prompt").fill("an older text")
    page.wait_for_function(KEPT % "an older text")
    page.evaluate(
        """() => { for (const storage of [localStorage, sessionStorage])
        for (let size = 2 ** 22, k = 0; size >= 1; ) {
          try { storage.setItem(`filler ${k++}`, "x".repeat(size)); } catch { size = size >> 1; }
        } }"""
    )
    box(page, "prompt").fill("a newer text that is much longer than the one before it was " * 9)
    page.wait_for_selector(".vg-toast >> text=This browser keeps nothing more")
    page.reload()
    filled(page)
    assert box(page, "prompt").input_value() == ""
    assert LEFT not in page.inner_text("#create-said")


def test_a_press_whose_answer_was_lost_makes_no_second_job(fake_site: Site, open_page: Any) -> None:
    page = open_page(fake_site)
    filled(page)
    box(page, "prompt").fill("only once; steps=1")
    page.wait_for_selector(".vg-preflight dl")
    lost: list[int] = []

    def lose(route: Any) -> None:
        if lost or not re.search(r'"data":\["[0-9a-f]{32}/', route.request.post_data or ""):
            route.continue_()
            return
        answer = route.fetch()  # it was done, and nobody hears of it
        lost.append(answer.status)
        route.abort()

    page.route("**/gradio_api/**", lose)
    page.evaluate("window.before = true")
    page.click("#generate")
    page.wait_for_function("!window.before")  # Gradio loads the page again by itself
    assert lost == [200]
    filled(page)
    page.click("#generate")
    page.wait_for_selector("vidgen-live h2 >> text=only once")
    found = fake_site.get("videos", text="only once", limit=10)["data"]
    assert len(found) == 1
