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
  given.filled = () => { filled(); window.fills += 1; };
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


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Any]:
    """Return a function that gives an empty page in a browser of its own; its end closes all."""
    contexts = []

    def made(width: int = 1440, theme: str = "light") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 950}, color_scheme=theme, accept_downloads=True
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(FILLS)
        page = context.new_page()
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        return page

    yield made
    for context in contexts:
        for page in context.pages:  # shown when the test has failed
            with contextlib.suppress(Exception):
                print(f"== {page.url}\n{page.inner_text('body', timeout=5000)[:4000]}")
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
