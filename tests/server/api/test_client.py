"""The official client against a real server process: each call of the videos API."""

import io
import secrets
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai
import pytest
from PIL import Image

from server.database import Database
from server.queue.keys import create_key
from tests.server.api.site import WIDE, served, working
from tests.server.conftest import BACKENDS, migrated
from tests.server.postgres import Cluster
from tests.server.worker.floor import Floor

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=BACKENDS)
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Floor, str]]:
    """Run a server on each kind of database in turn; give its floor and its address."""
    folder = tmp_path_factory.mktemp("served")
    url = f"sqlite:///{folder / 'vidgen.db'}"
    if request.param == "postgres":
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.url(cluster.create())
    floor = Floor(migrated(url), folder / "home", lease_seconds=3600, webhook_private=True, **WIDE)
    with served(floor) as (_, address):
        yield floor, address
    floor.db.close()


@pytest.fixture
def floor(running: tuple[Floor, str]) -> Floor:
    return running[0]


@pytest.fixture
def key(floor: Floor) -> str:
    """Return a key of a tenant of its own, so that tests do not see each other's jobs."""
    return create_key(floor.db, secrets.token_hex(8), "test", ["create", "read"])[1]


@pytest.fixture
def http(running: tuple[Floor, str], key: str) -> Iterator[httpx.Client]:
    head = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=running[1], timeout=60, headers=head) as client:
        yield client


@pytest.fixture
def client(running: tuple[Floor, str], key: str) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield openai.OpenAI(api_key=key, base_url=f"{running[1]}/v1", timeout=60)


def _png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (96, 96), (200, 30, 30)).save(buffer, "png")
    return buffer.getvalue()


def test_every_call_of_the_official_client(client: Any, floor: Floor) -> None:
    videos = client.videos
    with working(floor):
        done = videos.create_and_poll(prompt="a ball", model="toyworld", seconds="4")
        assert (done.status, done.object, done.model) == ("completed", "video", "toyworld")
        assert abs(float(done.seconds) - 4) < 0.2
        assert done.adjustments[0]["field"] == "seconds"
        assert done.queue_position is None
        for variant in ("video", "thumbnail", "spritesheet"):
            assert len(videos.download_content(done.id, variant=variant).read()) > 100
        failed = videos.create_and_poll(prompt="error@0=9", poll_interval_ms=100)
        assert (failed.status, failed.error.code) == ("failed", "internal")
        pictured = videos.create(
            prompt="x", input_reference=("a.png", _png(), "image/png"), size="96x96",
            extra_body={"steps": 3, "tags": ["a", "b"], "metadata": {"k": "v"}},
        )  # fmt: skip
        assert pictured.request["image"].startswith("upload:")
        assert (pictured.steps, pictured.tags) == (None, ["a", "b"])
        assert pictured.options["metadata"] == {"k": "v"}
        pictured = videos.poll(pictured.id, poll_interval_ms=100)
        assert pictured.status == "completed"
        remixed = videos.remix(done.id, prompt="a blue ball")
        assert (remixed.remixed_from_video_id, remixed.seed) == (done.id, done.seed)
        remixed = videos.poll(remixed.id, poll_interval_ms=100)
        whole = videos.download_content(done.id).read()
        longer = videos.extend(prompt="it stops", seconds="4", video=("v.mp4", whole))
        assert longer.lineage == {"parent": None, "kind": None}
        assert float(longer.seconds) > 4
        with pytest.raises(openai.UnprocessableEntityError) as able:
            videos.edit(prompt="x", video=("v.mp4", whole))
        assert "toyworld" in able.value.message  # it cannot change a video, and says so
        with pytest.raises(openai.APIStatusError) as caught:
            client.with_options(max_retries=0).videos.create_character(name="x", video=whole)
        assert caught.value.status_code == 501
    listed = [video.id for video in videos.list(limit=2)]
    assert len(listed) == len(set(listed)) == 5
    assert [video.id for video in videos.list(order="asc", limit=3)] == listed[::-1]
    assert videos.retrieve(failed.id).status == "failed"
    gone = videos.delete(done.id)
    assert (gone.id, gone.deleted, gone.object) == (done.id, True, "video.deleted")
    with pytest.raises(openai.NotFoundError):
        videos.retrieve(done.id)
    with pytest.raises(openai.BadRequestError) as bad:
        videos.create(prompt="x", extra_body={"promt": "y"})
    assert bad.value.param == "promt"


def test_the_first_poll_header_is_what_the_client_keeps(client: Any, floor: Floor) -> None:
    with working(floor):
        pass  # a worker is known now
    made = client.videos.with_raw_response.create(prompt="a ball")
    wait = int(made.headers["openai-poll-after-ms"])
    video = made.parse()
    assert wait == min(max(int(video.eta_s["p50"] * 50), 500), 5000)


def test_retries_of_the_client_make_one_job(running: tuple[Floor, str], key: str) -> None:
    """The first answer is lost on the way; the client sends the request again, blindly."""

    class Losing(httpx2.HTTPTransport):
        lost = 0

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            answer = super().handle_request(request)
            if request.method == "POST" and not self.lost:
                self.lost += 1
                answer.close()
                raise httpx2.ReadError("lost")
            return answer

    http = httpx2.Client(transport=Losing())
    client = openai.OpenAI(api_key=key, base_url=f"{running[1]}/v1", http_client=http)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = client.videos.create(prompt="a ball", input_reference=("a.png", _png()))
        assert [video.id for video in client.videos.list()] == [made.id]


def test_webhook_endpoints_of_the_client(client: Any, floor: Floor) -> None:
    heard: list[tuple[dict[str, str], bytes]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((dict(self.headers), body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
    made = client.webhooks.create(name="n", url=url, event_types=["video.completed"])
    assert made.signing_secret.startswith("whsec_")
    assert client.webhooks.retrieve(made.id).url == url
    assert client.webhooks.update(made.id, name="m").name == "m"
    assert [item.id for item in client.webhooks.list()] == [made.id]
    assert "video.failed" in client.webhooks.event_types.list().data
    assert client.webhooks.test(made.id, event_type="video.completed").status_code == 200
    with working(floor):
        video = client.videos.create(prompt="a ball")
        floor.until(lambda: len(heard) == 2, "the webhook")
    headers, body = heard[1]
    event = client.webhooks.unwrap(body, headers, secret=made.signing_secret)
    assert (event.type, event.data.id) == ("video.completed", video.id)
    new = client.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
    assert new.signing_secret != made.signing_secret
    assert client.webhooks.delete(made.id).deleted
    with pytest.raises(openai.BadRequestError):
        client.webhooks.create(name="n", url=url, event_types=["batch.failed"])
    receiver.shutdown()


def test_a_full_queue_is_waited_for_as_the_server_says(sqlite: Database, tmp_path: Path) -> None:
    floor = Floor(sqlite, tmp_path / "home", lease_seconds=600, max_queued=1)
    with served(floor) as (_, address), working(floor):
        client = openai.OpenAI(api_key="x", base_url=f"{address}/v1", max_retries=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for _ in range(3):
                client.videos.create(prompt="a ball; steps=4 step=0.1")
        floor.until(lambda: len(floor.jobs.page(None).jobs) == 3, "three jobs")


def test_streams_go_on_where_they_broke_off(http: httpx.Client, floor: Floor) -> None:
    """A watcher of a chain is cut off after every third event; a player is slow to begin."""
    shots = [{"prompt": f"steps=3 step=0.1 {n}", "seconds": 1} for n in range(4)]
    with working(floor):
        video = http.post("/v1/videos", json={"story": {"shots": shots}}).json()["id"]
        seen: list[int] = []
        types: list[str] = []
        while True:
            head = {"Last-Event-ID": str(seen[-1])} if seen else {}
            with http.stream("GET", f"/v1/videos/{video}/events", headers=head) as stream:
                if stream.status_code == 204:
                    break
                got = 0
                for line in stream.iter_lines():
                    if line.startswith("id: "):
                        seen.append(int(line[4:]))
                        got += 1
                    elif line.startswith("event: "):
                        types.append(line[7:])
                    elif not line and got == 3:
                        break
        assert seen == sorted(set(seen))
        assert types.count("clip.completed") == 4
        assert types[-1] == "video.completed"


def test_a_clip_plays_while_the_next_is_made(http: httpx.Client, floor: Floor) -> None:
    shots = [{"prompt": f"steps=4 step=0.2 {n}", "seconds": 1} for n in range(3)]
    with working(floor):
        video = http.post("/v1/videos", json={"story": {"shots": shots}}).json()["id"]
        url = f"/v1/videos/{video}"
        data = b""
        with http.stream("GET", f"{url}/content?partial=true") as stream:
            for piece in stream.iter_bytes():
                if not data:
                    begun = http.get(url).json()
                    listed = http.get(f"{url}/stream.m3u8").text
                data += piece
        assert begun["clips_completed"] < 3
        assert "#EXT-X-ENDLIST" not in listed
        assert "stream/0.m4s" in listed
        assert data.count(b"moof") >= 3
        assert http.get(url).json()["status"] == "completed"
        assert "#EXT-X-ENDLIST" in http.get(f"{url}/stream.m3u8").text


def test_a_polite_end_says_that_it_is_not_ready_and_ends_streams(
    sqlite: Database, tmp_path: Path
) -> None:
    floor = Floor(sqlite, tmp_path / "home")
    _, key = create_key(sqlite, "default", "x", ("create", "read"))
    head = {"Authorization": f"Bearer {key}"}
    with (
        served(floor, public_url="https://video.example.com") as (process, address),
        httpx.Client(base_url=address, timeout=60, headers=head) as http,
    ):
        video = http.post("/v1/videos", json={"prompt": "x"}).json()["id"]
        with http.stream("GET", f"/v1/videos/{video}/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            process.terminate()
            end = time.monotonic() + 30
            while http.get("/readyz").status_code == 200:
                assert time.monotonic() < end
            assert http.get("/livez").status_code == 200
            assert any("job.held" in line for line in lines)
        assert process.wait(timeout=60) == 0
