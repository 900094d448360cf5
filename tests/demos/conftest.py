"""What the studio's tests share: a browser, and servers with fake and with real clips.

They end with this package: idle they take a tenth of a processor each, and where Playwright runs,
DBOS cannot be started.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.demos.site import Site

WAIT_MS = 120_000  # of a busy machine
# Counts in each page how often its form was filled with what was kept, be it nothing.
FILLS = """let own; window.fills = 0;
Object.defineProperty(window, "vidgen", { get: () => own, set: (given) => {
  const { filled } = given;
  given.filled = (...all) => { filled(...all); window.fills += 1; };
  own = given; } });"""


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """Return a headless Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    place = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chrome")
    if place is None:
        pytest.skip("there is no Chromium; name one in CHROMIUM")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


def context_of(chromium: Any) -> Any:
    """Return a browser's memory of its own."""
    context = chromium.new_context(reduced_motion="reduce", accept_downloads=True)
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(FILLS)
    return context


@pytest.fixture(scope="package")
def warm_context(chromium: Any) -> Iterator[Any]:
    """Return a context in which what pages load is kept: fetching it anew is most of their cost."""
    context = context_of(chromium)
    yield context
    context.close()


def forget(context: Any) -> None:
    """Close all pages of a context and take away what they wrote down."""
    blank = context.new_page()
    pages = [page for page in context.pages if page is not blank]
    origins = {page.evaluate("location.origin") for page in pages}
    for page in pages:
        page.goto("about:blank")  # the page that is left may write something down
        page.close()
    session = context.new_cdp_session(blank)
    for origin in origins - {"null"}:
        told = {"origin": origin, "storageTypes": "local_storage"}
        session.send("Storage.clearDataForOrigin", told)
    context.clear_cookies()
    blank.close()


@pytest.fixture
def new_page(chromium: Any, warm_context: Any) -> Iterator[Any]:
    """Return a function that gives an empty page in a browser of its own; its end closes all."""
    contexts: list[Any] = []

    def made(width: int = 1440, theme: str = "light") -> Any:
        context = context_of(chromium) if contexts else warm_context
        contexts.append(context)
        page = context.new_page()
        page.set_viewport_size({"width": width, "height": 950})
        page.emulate_media(color_scheme=theme)
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        return page

    yield made
    for context in contexts:
        for page in context.pages:  # shown when the test has failed
            with contextlib.suppress(Exception):
                print(f"== {page.url}\n{page.inner_text('body', timeout=5000)[:4000]}")
        if context is warm_context:
            forget(context)
        else:
            context.close()


@pytest.fixture
def open_page(new_page: Any) -> Any:
    """Return a function that opens a page of the studio in a browser of its own."""

    def opened(site: Site, where: str = "", width: int = 1440, theme: str = "light") -> Any:
        page = new_page(width, theme)
        page.goto(f"{site.address}/ui/?__theme={theme}#{where}")
        page.wait_for_selector("vidgen-strip .vg-fact")
        return page

    return opened


@pytest.fixture(scope="package")
def all_files_fake_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server whose worker makes plain pictures at once."""
    site = Site(tmp_path_factory.mktemp("fake"))
    site.start()
    site.wait_for_worker()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def fake_site(all_files_fake_site: Site) -> Iterator[Site]:
    """Return that server; what a file leaves in its line is cancelled."""
    yield all_files_fake_site
    all_files_fake_site.let_go()


@pytest.fixture(scope="package")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server whose worker makes clips of the toy world."""
    site = Site(tmp_path_factory.mktemp("real"), renderer="")
    site.start()
    site.wait_for_worker()
    yield site
    site.stop()
