"""Two hundred jobs through the form's own handlers leave nothing behind in the studio."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.demos.site import Site, eventually
from tests.demos.test_create import box

pytestmark = pytest.mark.slow
JOBS = 200
MOST_BYTES = 1 << 20  # of temporary files and caches after all of them
MOST_SLOPE = 64 << 10  # bytes that the process holds for each job, when it is warm


def taken(folder: Path) -> int:
    """Return the bytes below a folder."""
    return sum(item.stat().st_size for item in folder.rglob("*") if item.is_file())


def test_two_hundred_jobs_leave_no_files_and_little_memory(
    fake_site: Site, open_page: Any, record_property: Any
) -> None:
    page = open_page(fake_site)
    before = taken(fake_site.temp)
    sizes = []
    for lap in range(4):
        box(page, "n").fill(str(JOBS // 4))
        box(page, "prompt").fill(f"small {lap}; steps=1 frames=4")
        page.wait_for_selector(".vg-preflight dl")
        page.click("#generate")
        page.wait_for_selector("#create-said .vg-note")
        eventually(lambda: busy(fake_site) == 0, "the jobs do not end", 900)
        page.evaluate("location.hash = 'library'")
        page.wait_for_selector("#page-library .vg-item >> nth=20")
        page.evaluate("location.hash = 'create'")
        sizes.append(httpx.get(f"{fake_site.address}/held", timeout=60).json())
    left = taken(fake_site.temp) - before
    slope = (sizes[-1] - sizes[0]) / (JOBS * 3 / 4)
    record_property("bytes_left", left)
    record_property("rss_bytes_per_job", slope)
    print(f"left {left} bytes, {slope:.0f} bytes of memory a job, {sizes}")
    assert left <= MOST_BYTES
    assert slope <= MOST_SLOPE


def busy(site: Site) -> int:
    """Return how many jobs have not ended."""
    states = site.get("queue")["states"]
    ended = ("completed", "failed", "cancelled", "expired")
    return sum(count for state, count in states.items() if state not in (*ended, "paused"))
