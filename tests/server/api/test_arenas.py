"""Arenas: the API's threads share few, so that what each needed once is not kept by each."""

import itertools
import platform
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from server.api.arenas import ARENAS
from tests.server.api.site import Site, served

RESERVED = 64 << 20  # bytes that glibc sets aside for an arena, at a multiple of as much
_HELD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0\s*")


def arenas(pid: int) -> int:
    """Return how many arenas a process has beside its heap, as the kernel sees it."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    found = 0
    for here, behind in itertools.pairwise(lines):
        held = _HELD.fullmatch(here)
        if held is None or int(held[1], 16) % RESERVED:
            continue
        left = behind.split()[0]
        end = f"{int(held[1], 16) + RESERVED:x}"
        found += left == f"{held[2]}-{end}" and " ---p " in behind
    return found


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_many_requests_at_once_make_no_new_arenas(site: Site) -> None:
    site.worker()
    with served(site.floor) as (process, address), httpx.Client(base_url=address) as http:

        def ask(number: int) -> int:
            made = http.post("/v1/videos", json={"prompt": "a ball", "seed": number}, timeout=60)
            return made.status_code

        with ThreadPoolExecutor(12) as pool:
            assert set(pool.map(ask, range(36))) == {200}
        assert len(list(Path(f"/proc/{process.pid}/task").iterdir())) > 6
        assert 1 <= arenas(process.pid) <= ARENAS - 1
