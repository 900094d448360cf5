"""`vidgen ui --server URL`: a studio of its own process, in front of a server elsewhere."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.demos.site import ROOT, Site, eventually, free_port
from tests.demos.test_create import ask, box, filled, shown

pytestmark = pytest.mark.slow
PLAYS = "document.querySelector('vidgen-player video')?.currentTime > 0.05"


@dataclass(frozen=True)
class Studio:
    """Where a studio that stands alone is reached."""

    address: str


@contextmanager
def studio_for(site: Site, *more: str) -> Iterator[Studio]:
    """Run `vidgen ui` in front of a server while the block runs."""
    port = free_port()
    words = ["-m", "vidgen.cli", "ui", "--server", site.address, "--port", str(port), *more]
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=site.environ, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert f"http://127.0.0.1:{port}/ui/" in process.stdout.readline()
        login = f"http://127.0.0.1:{port}/ui/login"
        eventually(lambda: httpx.get(login, timeout=60), "the studio does not listen")
        yield Studio(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def test_a_clip_is_made_by_a_server_elsewhere(real_site: Site, open_page: Any) -> None:
    with studio_for(real_site) as studio:
        page = open_page(studio)
        page.click("#advanced button >> nth=0")
        page.click("#group-sampling button >> nth=0")
        page.fill("#field-num_inference_steps :is(textarea, input)", "2")
        ask(page, "a small blue star moves up", seed="13")
        page.wait_for_function(PLAYS)
        video = real_site.get(f"videos/{shown(page)}")
        assert (video["state"], video["seed"]) == ("completed", 13)
        film = f"{studio.address}/ui/api/videos/{video['id']}/content"
        part = httpx.get(film, headers={"Range": "bytes=4-11"})
        whole = httpx.get(f"{real_site.address}/v1/videos/{video['id']}/content").content
        assert part.status_code == 206
        assert part.content == whole[4:12]
        page.click("vidgen-player >> text=Use this frame")  # the studio fetches the clip itself
        page.wait_for_selector("vidgen-drop[field='image'] img")
        assert page.faults == []


def test_each_person_signs_in_at_a_server_with_keys(new_page: Any, tmp_path: Path) -> None:
    site = Site(tmp_path / "home")
    site.start()
    try:
        site.wait_for_worker()
        key = keys(site, "create,read")
        with studio_for(site) as studio:
            page = new_page()
            page.goto(f"{studio.address}/ui/")
            page.fill("#key", "sk-vidgen-wrong")
            page.click("button")
            page.wait_for_selector("text=The server does not know this key.")
            sign_in(page, key)
            ask(page, "behind a key; steps=1")
            page.wait_for_function(PLAYS)
            page.click("vidgen-player >> text=Use this frame")  # fetched with the key of who asks
            page.wait_for_selector("vidgen-drop[field='image'] img")
            page.evaluate("location.hash = 'system'")
            page.wait_for_selector("text=Workers are shown to keys with the scope admin.")
            assert key not in page.content()
            told = {"Authorization": f"Bearer {key}"}
            found = httpx.get(f"{site.address}/v1/videos", headers=told).json()["data"]
            assert [video["prompt"] for video in found] == ["behind a key; steps=1"]
            page.click("text=Sign out")
            sign_in(page, keys(site, "create,read", "another"))
            filled(page)
            assert box(page, "prompt").input_value() == ""  # another tenant's draft
            page.click("text=Sign out")
            sign_in(page, key)
            page.wait_for_selector("#create-said >> text=files have to be dropped again")
            assert box(page, "prompt").input_value() == "behind a key; steps=1"
            assert page.faults == []
    finally:
        site.stop()


def sign_in(page: Any, key: str) -> None:
    """Sign in at the page that asks for it."""
    page.fill("#key", key)
    page.click("button")
    page.wait_for_selector("vidgen-strip .vg-fact")


def keys(site: Site, scopes: str, tenant: str = "default") -> str:
    """Make a key for a server's home and return it."""
    words = ["-m", "vidgen.cli", "keys", "create", "--name", "me", "--scopes", scopes]
    words += ["--tenant", tenant]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=site.environ, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return next(word for word in done.stdout.split() if word.startswith("sk-vidgen-"))
