"""Content: files, ranges, and a video that is played while it is made."""

import asyncio
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import av
import pytest
from starlette.requests import Request

from server.api.playing import WhileMade, partial, playlist, shown
from server.api.serving import Stored, serve
from tests.server.api.site import Site, story


def test_a_file_whole_and_in_parts(site: Site) -> None:
    site.worker()
    video = site.make()["id"]
    url = f"/v1/videos/{video}/content"
    get = site.http.get
    whole = get(url)
    data = whole.content
    assert whole.headers["content-type"] == "video/mp4"
    assert whole.headers["content-disposition"] == f'inline; filename="{video}.mp4"'
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert int(whole.headers["content-length"]) == len(data)
    assert get(f"{url}?variant=video").content == data
    etag = whole.headers["etag"]

    def part(text: str, **headers: str) -> Any:
        return get(url, headers={"Range": text, **headers})

    first = part("bytes=0-9")
    assert (first.status_code, first.content) == (206, data[:10])
    assert first.headers["content-range"] == f"bytes 0-9/{len(data)}"
    assert part("bytes=10-").content == data[10:]
    assert part("bytes=-5").content == data[-5:]
    assert part(f"bytes=5-{10 * len(data)}").content == data[5:]
    assert part("bytes=0-9", **{"If-Range": etag}).status_code == 206
    assert part("bytes=0-9", **{"If-Range": '"other"'}).content == data
    for text in ("bytes=9-5", "bytes=-", "lines=0-9", "bytes=0-1,4-5"):
        assert (part(text).status_code, part(text).content) == (200, data)
    beyond = part(f"bytes={len(data)}-")
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(data)}")
    assert beyond.json()["error"]["code"] == "range_not_satisfiable"
    assert get(url, headers={"If-None-Match": etag}).status_code == 304
    head = site.http.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(data)


def test_variants_have_fixed_types(site: Site) -> None:
    site.worker()
    made = site.make()
    get = site.http.get
    for name, kind in (("thumbnail", "image/"), ("spritesheet", "image/"), ("last_frame", "image/"),
                       ("master", "video/"), ("latents", "application/octet-stream")):  # fmt: skip
        answer = get(f"/v1/videos/{made['id']}/content?variant={name}")
        assert answer.status_code == 200, name
        assert answer.headers["content-type"].startswith(kind), name
        assert made["variants"][name]["bytes"] == len(answer.content)
        how = "inline" if kind != "application/octet-stream" else "attachment"
        assert answer.headers["content-disposition"].startswith(how)
    for name in ("../video", "nothing", "clip-", "clip-x"):
        assert get(f"/v1/videos/{made['id']}/content", params={"variant": name}).status_code == 400
    assert get(f"/v1/videos/{made['id']}/content?variant=clip-0").status_code == 200
    assert get(f"/v1/videos/{made['id']}/content?variant=clip-7").status_code == 404


def test_a_page_in_the_store_is_only_octets() -> None:
    for name in ("x.html", "x.svg", "x.js", "x"):
        assert Stored(name, 1, None).media_type == "application/octet-stream"


def test_before_and_after_there_is_a_file(site: Site) -> None:
    site.worker()
    made = site.created()
    url = f"/v1/videos/{made['id']}/content"
    early = site.http.get(url)
    assert (early.status_code, early.json()["error"]["code"]) == (409, "conflict")
    site.work()
    job = site.floor.jobs.get(made["id"], None)
    from server.keeping import sweep

    sweep(site.floor.db, site.floor.store, site.floor.settings, lambda: job.expires_at + 1)
    late = site.http.get(url)
    assert (late.status_code, late.json()["error"]["code"]) == (410, "gone")
    assert site.http.get(f"/v1/videos/{made['id']}").json()["status"] == "completed"
    assert site.http.get(f"/v1/videos/{made['id']}/stream.m3u8").status_code == 410


@pytest.mark.parametrize("whole", [{}, {"Range": "bytes=0-"}])
def test_a_job_that_keeps_nothing_is_destroyed_by_its_download(
    site: Site, whole: dict[str, str]
) -> None:
    site.worker()
    made = site.created(prompt="a SECRET ball", zdr=True)
    site.work()
    url = f"/v1/videos/{made['id']}/content"
    assert site.http.head(url).status_code == 200
    assert site.http.get(url, headers={"Range": "bytes=0-9"}).status_code == 206
    assert site.http.get(url, headers=whole).status_code == (206 if whole else 200)
    assert site.http.get(url).status_code == 410
    left = site.http.get(f"/v1/videos/{made['id']}")
    assert left.json()["status"] == "completed"
    assert "SECRET" not in left.text


def test_a_broken_download_destroys_nothing(site: Site) -> None:
    """The server's own client goes away after the first piece; only a whole answer counts."""
    store = site.floor.store
    facts = store.put_bytes("jobs/video_1/f1/video.mp4", b"x" * 3_000_000)
    stored = Stored(facts.key, facts.bytes, facts.sha256)
    done: list[str] = []
    scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.3"}}

    async def ask(pieces: int) -> None:
        sent = asyncio.Event()
        told = 0

        async def send(message: Any) -> None:
            nonlocal told
            told += message["type"] == "http.response.body"
            if told > pieces:
                sent.set()
                await asyncio.sleep(10)

        async def receive() -> Any:
            await sent.wait()
            return {"type": "http.disconnect"}

        answer = serve(Request(scope), store, stored, "v.mp4", after=lambda: done.append("all"))
        await answer(scope, receive, send)

    with ThreadPoolExecutor(1) as pool:  # a browser of other tests may have a loop in this thread
        pool.submit(asyncio.run, ask(1)).result()
        assert done == []
        pool.submit(asyncio.run, ask(1000)).result()
    assert done == ["all"]


def _frames(data: bytes) -> int:
    with av.open(io.BytesIO(data)) as container:
        return sum(1 for _ in container.decode(video=0))


def test_clips_play_one_after_another(site: Site) -> None:
    """Of a chain of three, two made: the list grows, and all pieces together are one file."""
    site.worker()
    video = site.created(prompt=None, story=story("frames=6", "b", "c error@2=9"))["id"]
    url = f"/v1/videos/{video}"
    assert site.http.get(f"{url}/stream.m3u8").status_code == 409
    assert site.http.get(f"{url}/stream/init.mp4").status_code == 409
    site.work()
    job = site.floor.jobs.get(video, None)
    assert (job.state, job.clips_completed) == ("failed", 2)
    text = site.http.get(f"{url}/stream.m3u8").text.splitlines()
    assert text[0] == "#EXTM3U"
    assert "#EXT-X-PLAYLIST-TYPE:EVENT" in text
    assert [line for line in text if line.endswith(".m4s")] == ["stream/0.m4s", "stream/1.m4s"]
    assert text[-1] == "#EXT-X-ENDLIST"
    pieces = [site.http.get(f"{url}/stream/init.mp4").content]
    pieces += [site.http.get(f"{url}/stream/{n}.m4s").content for n in (0, 1)]
    assert _frames(b"".join(pieces)) == 12
    listed = site.http.get(f"{url}/clips").json()["data"]
    assert [(clip["index"], clip["num_frames"]) for clip in listed] == [(0, 6), (1, 6)]
    assert listed[0]["metrics"]["quality"]
    assert site.http.get(f"{url}/stream/2.m4s").status_code == 404
    assert site.http.get(f"{url}/content?partial=true").content == b"".join(pieces)
    assert site.http.get(f"{url}/content?variant=clip-1").status_code == 200
    assert site.http.get(f"{url}/content?variant=clip-2").status_code == 409
    assert site.http.get(f"{url}/content").status_code == 409


def test_of_a_failed_video_without_clips_nothing_is_awaited(site: Site) -> None:
    site.worker()
    video = site.created(prompt="error@0=9")["id"]
    site.work()
    assert site.floor.jobs.get(video, None).state == "failed"
    for path in ("stream.m3u8", "stream/init.mp4", "content?partial=true"):
        answer = site.http.get(f"/v1/videos/{video}/{path}")
        assert answer.status_code == 409
        assert "is failed, and no clip of it was made" in answer.json()["error"]["message"]
        assert "retry-after" not in answer.headers


def test_a_stream_that_is_cut_off_has_no_end(site: Site) -> None:
    """A deleted job's partial video is not handed out as if it were whole."""
    site.worker()
    video = site.created(prompt=None, story=story("a", "b"))["id"]
    services = site.services
    job = services.jobs.get(video, None)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def watch() -> None:
        services.watch.start()
        found = (services.database, services.store, services.watch, services.jobs)
        stream = partial(*found, job, lambda: True)
        site.http.delete(f"/v1/videos/{video}")
        try:
            await WhileMade(stream).stream_response(send)
        finally:
            services.watch.stop()

    asyncio.run(asyncio.wait_for(watch(), 30))
    assert [message["type"] for message in sent] == ["http.response.start"]


def test_the_playlist_stops_at_a_gap(site: Site) -> None:
    """Clips are made in another order than shown where keyframes come first."""
    site.worker()
    video = site.created(prompt=None, story=story("a", "b", "c"))["id"]
    site.work()
    job = site.floor.jobs.get(video, None)
    rows = site.floor.jobs.clips(video)
    assert [row.idx for row in shown(rows, job)] == [0, 1, 2]
    assert [row.idx for row in shown([rows[0], rows[2]], job)] == [0]
    job.decided["clips"][0]["place"], job.decided["clips"][2]["place"] = 2, -1
    job.decided["clips"][1]["place"] = 0
    assert [row.idx for row in shown(rows, job)] == [1, 0]
    assert playlist(job, rows).index("stream/1.m4s") < playlist(job, rows).index("stream/0.m4s")


def test_the_newest_preview_is_served_while_there_is_none_better(site: Site) -> None:
    site.worker()
    video = site.created(prompt="a ball error@0=9; steps=4 step=0.3")["id"]
    assert site.http.get(f"/v1/videos/{video}/content?variant=preview").status_code == 409
    site.work()
    answer = site.http.get(f"/v1/videos/{video}/content?variant=preview")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/webp"


@pytest.mark.parametrize("path", ["stream/x.m4s", "stream/-1.m4s", "stream/99999999999999.m4s"])
def test_odd_segments(site: Site, path: str) -> None:
    video = site.created()["id"]
    assert site.http.get(f"/v1/videos/{video}/{path}").status_code in (400, 404)
