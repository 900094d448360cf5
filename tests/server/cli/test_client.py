"""The client: what is no address, no key and no server of ours is told in a sentence."""

import email.message
import io
import json
import urllib.error
import urllib.response
from pathlib import Path
from typing import Any

import pytest

from server.cli.client import Client
from vidgen.errors import VidgenError

HERE = "http://127.0.0.1:9"
HOSTILE = "\x1b]0;pwn\x07\x1b[2J"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--server", ""], "server='' is no address; name one, or leave the option out."),
        (["--server", "http://[::1"], "server='http://[::1' is no address such as"),
        (["--server", "http://127.0.0.1:99999"], "is no address such as"),
        (["--server", "http://h\u00f6st"], "is no address such as"),
        (["--server", f"{HERE}?x=1"], f"server='{HERE}?x=1' goes on behind its path"),
        (["--server", f"{HERE}#x"], "goes on behind its path"),
        (["--server", HERE, "--key", "sk-a\n"], r"The API key holds '\n' as character 5"),
        (["--server", HERE, "--key", "sk-\u043a"], r"The API key holds '\u043a' as character 4"),
        (["--limit", "-1"], "limit=-1 must be 1 to 10000."),
        (["--limit", "0"], "limit=0 must be 1 to 10000."),
        (["--limit", "1000000000"], "limit=1000000000 must be 1 to 10000."),
    ],
)
def test_what_cannot_be_asked_is_told(run: Any, words: list[str], said: str) -> None:
    ran = run("queue", "ls", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_key_of_the_environment_is_looked_at_and_an_empty_server_is_none(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDGEN_API_KEY", "sk-secret\u20ac")
    ran = run("queue", "ls", "--server", HERE)
    assert ran.code == 2
    assert "character 10" in ran.err
    assert "secret" not in ran.err
    monkeypatch.setenv("VIDGEN_SERVER", "")
    assert "There is no database" in run("queue", "ls").err


class Answers:
    """In place of the network: the same answer to everything."""

    def __init__(self, body: bytes, kind: str, status: int, **more: str) -> None:
        self._body, self._status = body, status
        self._headers = email.message.Message()
        for name, value in {"Content-Type": kind, **more}.items():
            self._headers[name.replace("_", "-")] = value

    def open(self, request: Any, **_named: Any) -> Any:
        """Answer."""
        body = io.BytesIO(self._body)
        if self._status >= 300:
            text = "no"
            raise urllib.error.HTTPError(request.full_url, self._status, text, self._headers, body)
        return urllib.response.addinfourl(body, self._headers, request.full_url, self._status)


def client_with(*answer: Any, **more: str) -> Client:
    """Return a client that gets one answer."""
    client = Client(HERE, None)
    client._opener = Answers(*answer, **more)  # type: ignore[assignment]
    return client


PAGE = (b"<html>hello</html>", "text/html", 200)
MISSING = (b"<html>not here</html>", "text/html", 404)
MOVED = (b"", "text/html", 301)
LIST = (b"[]", "application/json", 200)
OTHER = (b'{"id": "video_1", "status": "queued", "data": "x"}', "application/json", 200)


@pytest.mark.parametrize("answer", [PAGE, MISSING, MOVED, LIST, OTHER])
def test_what_is_no_server_of_ours_is_told(answer: tuple[bytes, str, int], tmp_path: Path) -> None:
    asked = [
        lambda client: list(client.pages("/v1/videos", {})),
        lambda client: client.create("/v1/videos", {}, "a-key"),
        lambda client: next(client.events("/v1/events")),
    ]
    for ask in asked:
        with pytest.raises(VidgenError, match=f"{HERE} does not answer as a Vidgen server does"):
            ask(client_with(*answer))


def test_a_page_is_no_video(tmp_path: Path) -> None:
    with pytest.raises(VidgenError, match="a page came in place of the file"):
        client_with(*PAGE).download("/v1/videos/video_1/content", tmp_path / "v.mp4")
    assert not list(tmp_path.iterdir())


def test_it_says_where_a_server_sends_on_to() -> None:
    with pytest.raises(VidgenError, match="says 301 and sends on to https://other"):
        client_with(*MOVED, Location="https://other/").get("/v1/videos")


def test_a_download_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    client = client_with(b"abc", "video/mp4", 200, Content_Length="9")
    with pytest.raises(VidgenError, match="broke off after 3 bytes"):
        client.download("/v1/videos/video_1/content", tmp_path / "v.mp4")
    assert not list(tmp_path.iterdir())


def test_what_a_server_refuses_with_steers_no_terminal() -> None:
    said = {"error": {"code": "invalid_request", "message": f"no {HOSTILE}"}}
    with pytest.raises(VidgenError) as caught:
        client_with(json.dumps(said).encode(), "application/json", 400).get("/v1/videos")
    assert caught.value.message == r"no \x1b]0;pwn\x07\x1b[2J"
