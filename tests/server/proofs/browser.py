"""A headless Chromium for one test."""

import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

Found = TypeVar("Found")
WAIT_MS = 120_000  # of a busy machine


def in_browser(look: Callable[[Any], Found]) -> Found:
    """Call a function with a new page and return what it returns; skip where there is no Chromium.

    It runs in a thread of its own: the driver leaves a running event loop in its thread, beside
    which neither a second driver nor asyncio.run works.
    """
    driver = pytest.importorskip("playwright.sync_api")
    place = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chrome")
    if place is None:
        pytest.skip("there is no Chromium; name one in CHROMIUM")

    def run() -> Found:
        with driver.sync_playwright() as started:
            chromium = started.chromium.launch(executable_path=place, args=["--no-sandbox"])
            page = chromium.new_context().new_page()
            page.set_default_timeout(WAIT_MS)
            try:
                return look(page)
            finally:
                chromium.close()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(run).result()
