"""What the studio's tests share: a browser, and servers with fake and with real clips."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.demos.site import Site

WAIT_MS = 120_000  # of a busy machine


@pytest.fixture(scope="session")
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
def open_page(chromium: Any) -> Iterator[Any]:
    """Return a function that opens a page of the studio in a browser of its own."""
    contexts = []

    def opened(site: Site, where: str = "", width: int = 1440, theme: str = "light") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 950}, color_scheme=theme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.goto(f"{site.address}/ui/?__theme={theme}#{where}")
        page.wait_for_selector("vidgen-strip .vg-fact")
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def fake_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server whose worker makes plain pictures at once."""
    site = Site(tmp_path_factory.mktemp("fake"))
    site.start()
    site.wait_for_worker()
    yield site
    site.stop()


@pytest.fixture(scope="session")
def real_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server whose worker makes clips of the toy world."""
    site = Site(tmp_path_factory.mktemp("real"), renderer="")
    site.start()
    site.wait_for_worker()
    yield site
    site.stop()
