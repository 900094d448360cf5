"""A chain of eight clips while it is made: its first clips play in a real browser, and whoever
listens to it hears everything once, however often the line is cut.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.demos.site import Site, eventually
from tests.server.fake import FPS, SIDE
from tests.server.proofs.browser import in_browser
from tests.server.proofs.cutter import Cutter, cutting
from tests.server.proofs.turnstile import let_through

pytestmark = pytest.mark.slow

CLIPS = 8
CLIP_SECONDS = 8 / FPS  # 8 frames each
FULL_SECONDS = CLIPS * CLIP_SECONDS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a server with the studio, and a worker whose clips wait for their turn."""
    made = Site(tmp_path_factory.mktemp("playing"), renderer="tests.server.proofs.turnstile:make")
    made.start()
    made.wait_for_worker()
    yield made
    made.stop()


def ask(site: Site, words: str, title: str = "") -> str:
    """Ask for a chain of eight clips; return its id."""
    shots = [{"prompt": f"{words} {number}", "seconds": 1} for number in range(CLIPS)]
    story = {"shots": shots, "request": {"fps": str(FPS)}}
    made = site.post("videos", {"story": story, "title": title})
    assert made["clips"] == CLIPS
    return str(made["id"])


def half_made(site: Site, video: str, clip: int) -> bool:
    """Whether a clip is being made just now, after all those before it."""
    found = site.get(f"videos/{video}")
    making = found["state"] == "running" and found["phase"] == "denoise"
    return making and bool(found["clips_completed"] == clip)


_SHOW = """address => {
  const video = document.createElement("video");
  Object.assign(video, { muted: true, autoplay: true, src: address });
  document.body.replaceChildren(video);
}"""
_FACTS = """selector => {
  const video = document.querySelector(selector);
  return { at: video.currentTime, size: [video.videoWidth, video.videoHeight],
    there: video.buffered.end(video.buffered.length - 1) };
}"""
_PAST = "([selector, time]) => document.querySelector(selector)?.currentTime >= time"
_ENDED = "selector => document.querySelector(selector).ended"
_FILM = "vidgen-live video"


def test_the_first_clip_plays_while_the_third_is_made(site: Site) -> None:
    """In the studio, which plays the file that grows; into the third; then all of it."""
    video = ask(site, "in its turn", title="1")
    for clip in range(2):
        let_through(site.home, 1, clip)
    eventually(lambda: half_made(site, video, 2), "clip 3 is not being made")
    told: list[dict[str, Any]] = []

    def look(page: Any) -> None:
        page.goto(f"{site.address}/ui/?__theme=light")
        for time_s in (0.3 * CLIP_SECONDS, 0.9 * CLIP_SECONDS):
            page.wait_for_function(_PAST, arg=[_FILM, time_s])
            told.append(page.evaluate(_FACTS, _FILM))
        assert half_made(site, video, 2)
        let_through(site.home, 1, 2)
        page.wait_for_function(_PAST, arg=[_FILM, 2.5 * CLIP_SECONDS])
        assert half_made(site, video, 3)
        for clip in range(3, CLIPS):
            let_through(site.home, 1, clip)
        assert site.ended(video)["state"] == "completed"
        for name in ("stream.m3u8", "content"):
            page.evaluate(_SHOW, f"/v1/videos/{video}/{name}")
            page.wait_for_function(_ENDED, arg="video")
            told.append(page.evaluate(_FACTS, "video"))

    try:
        in_browser(look)
    finally:
        for clip in range(CLIPS):
            let_through(site.home, 1, clip)
    early, later, *whole = told
    assert early["at"] < later["at"]
    assert all(facts["size"] == [SIDE, SIDE] for facts in told)
    assert early["there"] == pytest.approx(2 * CLIP_SECONDS, abs=0.01)
    assert later["there"] == early["there"]  # two clips, and no frame of the third
    for facts in whole:
        assert facts["at"] == pytest.approx(FULL_SECONDS, abs=0.5 / FPS)


def test_whoever_is_cut_off_hears_everything_once(site: Site) -> None:
    """A client of httpx and a browser's EventSource, both behind a line that breaks all the time,
    against the table of events itself.
    """
    port = int(site.settings["port"])
    with (
        cutting(port) as line,
        cutting(port) as other,
        ThreadPoolExecutor(1) as threads,
    ):

        def look(page: Any) -> tuple[str, Heard, Future[tuple[Heard, int]]]:
            page.goto(f"{other.address}/livez")
            video = ask(site, "steps=4 step=0.2")
            by_hand = threads.submit(listen, line, video)
            page.evaluate(_LISTEN, [f"/v1/videos/{video}/events", _TYPES])
            page.wait_for_function("window.source.readyState === EventSource.CLOSED")
            return video, [tuple(item) for item in page.evaluate("window.heard")], by_hand

        video, in_page, hearing = in_browser(look)
        by_hand, torn = hearing.result()
    known = written(site, video)
    assert [kind for _, kind, _ in known].count("clip.completed") == CLIPS
    assert known[-1][1] == "video.completed"
    assert by_hand == known
    assert in_page == known
    assert torn >= 3
    assert min(line.cuts, other.cuts) >= 3


_TYPES = [
    "job.queued", "job.held", "job.assigned", "job.started", "progress", "preview",
    "clip.completed", "clip.retried", "job.interrupted", "job.cancelling", "job.paused",
    "video.completed", "video.failed", "video.cancelled",
]  # fmt: skip
_LISTEN = """([address, types]) => {
  window.heard = [];
  window.source = new EventSource(address);
  for (const type of types) window.source.addEventListener(type, (event) =>
    window.heard.push([Number(event.lastEventId), type, JSON.parse(event.data)]));
}"""
Heard = list[tuple[int, str, dict[str, Any]]]


def listen(line: Cutter, video: str) -> tuple[Heard, int]:
    """Listen until the server has nothing more; return what was heard, and the blocks cut apart."""
    heard: Heard = []
    torn = 0
    until = time.monotonic() + 300
    while time.monotonic() < until:
        head = {"Last-Event-ID": str(heard[-1][0])} if heard else {}
        text, status = _answer(f"{line.address}/v1/videos/{video}/events", head)
        if status == 204:
            return heard, torn
        *blocks, rest = text.split("\n\n")
        torn += rest != ""
        for block in blocks:
            fields = dict(row.split(": ", 1) for row in block.split("\n"))
            if "id" in fields:
                heard.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    raise TimeoutError("the events have no end")


def _answer(address: str, head: dict[str, str]) -> tuple[str, int]:
    """Return what came of an answer before the line was cut, and its status; 0 without one."""
    found, status = b"", 0
    try:
        with httpx.stream("GET", address, headers=head, timeout=60) as answer:
            status = answer.status_code
            for piece in answer.iter_raw():
                found += piece
    except httpx.TransportError:
        pass
    return found.decode(errors="ignore"), status


def written(site: Site, video: str) -> Heard:
    """Return the events of a job as they stand in the database, in the form that is sent."""
    path = Path(site.home, "server", "vidgen.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        rows = database.execute(
            "SELECT seq, type, ts, data FROM events WHERE job_id = ? ORDER BY seq", [video]
        ).fetchall()
    return [
        (seq, kind, {"id": video, "seq": seq, "ts": ts, **json.loads(data)})
        for seq, kind, ts, data in rows
    ]
