"""Fetching: what is reached, and all that must not be."""

import gzip
import io
import socket
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from server.inputs.dialling import Rules
from server.inputs.url import fetch_url
from server.problems import Problem
from server.settings import ServerSettings
from tests.server.inputs.web import HOST, Web, body, web

ON = ServerSettings(url_fetch=True)
MIB = 1 << 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with web(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture
def site(running: Web) -> Web:
    running.pages.clear()
    running.seen.clear()
    running.asked.clear()
    return running


def refused(code: str, url: str, rules: Rules | None = None, max_bytes: int = MIB) -> Problem:
    into = io.BytesIO()
    with pytest.raises(Problem) as caught:
        fetch_url(url, ON, max_bytes, into, field="image", rules=rules)
    assert caught.value.code == code
    assert caught.value.param == "image"
    assert len(into.getvalue()) <= max_bytes
    return caught.value


def test_fetches_at_the_checked_address_under_its_own_name(site: Web) -> None:
    site.pages["/a/cat.png?size=1"] = body(b"picture")
    into = io.BytesIO()
    found = fetch_url(site.url("/a/cat.png?size=1"), ON, MIB, into, rules=site.rules())
    assert (found.bytes, found.filename, into.getvalue()) == (7, "cat.png", b"picture")
    path, headers = site.seen[0]
    assert path == "/a/cat.png?size=1"
    assert headers["host"] == f"{HOST}:{site.port}"
    assert headers["accept-encoding"] == "identity"
    assert "cookie" not in headers
    assert "authorization" not in headers


def test_off_by_default(site: Web) -> None:
    with pytest.raises(Problem, match="does not fetch") as caught:
        fetch_url(site.url("/"), ServerSettings(), MIB, io.BytesIO(), rules=site.rules())
    assert caught.value.code == "invalid_request"
    assert site.asked == []


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
     "0177.0.0.01", "127.0.1", "0", "0.0.0.0", "10.0.0.1", "192.168.1.1", "172.16.0.1",
     "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "100.100.100.200",
     "100.64.0.1", "168.63.129.16", "224.0.0.1", "255.255.255.255", "[::1]", "[::]",
     "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[::ffff:7f00:1]", "[fe80::1]",
     "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]", "[ff02::1]"],
)  # fmt: skip
def test_hosts_that_are_not_public(host: str) -> None:
    """Resolved by the system, as it reads such spellings."""
    problem = refused("invalid_request", f"https://{host}/latest/meta-data/")
    assert "not public" in problem.message


@pytest.mark.parametrize(
    "url",
    ["http://files.example/", "file:///etc/passwd", "ftp://files.example/", "gopher://x/", "https:",
     "https://", "https:///x", "//files.example/", "https://user:pw@files.example/",
     "https://files.example@127.0.0.1/", "https://127.0.0.1\\@files.example/",
     "https://files.example /", "https://files.example/\r\nHost: x", "https://files.example:0/",
     "https://files.example:65536/", "https://files.example:x/", "https://①②⑦.⓪.⓪.①/",
     "https://[::1%25lo]/", "https://[::1/", "https://exa_mple!.com/", "https://x/" + "a" * 2050],
)  # fmt: skip
def test_addresses_that_are_none(url: str, site: Web) -> None:
    refused("invalid_request", url, site.rules())
    assert site.asked == []


def test_scheme_in_capitals(site: Web) -> None:
    site.pages["/x"] = body(b"1")
    into = io.BytesIO()
    url = site.url("/x").replace("https", "HTTPS")
    assert fetch_url(url, ON, MIB, into, rules=site.rules()).bytes == 1


def test_rebinding_name_is_asked_once(site: Web) -> None:
    """A name that is public when checked and private when connected to: there is no second look."""
    tried: list[object] = []
    rules = site.rules({"rebind.example": ["93.184.216.34", "127.0.0.1"]}, seconds=5)
    connect = socket.create_connection

    def note(address: tuple[str, int], *arguments: object, **named: object) -> socket.socket:
        tried.append(address[0])
        raise ConnectionRefusedError("nobody there")

    socket.create_connection = note  # type: ignore[assignment]
    try:
        refused("input_fetch_failed", site.url("/x", "rebind.example"), rules)
    finally:
        socket.create_connection = connect
    assert tried == ["93.184.216.34"]
    assert site.asked == ["rebind.example"]
    assert site.seen == []


def test_one_private_address_of_several_is_enough(site: Web) -> None:
    def resolve(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.7"]

    problem = refused("invalid_request", "https://two.example/", Rules(5, resolve=resolve))
    assert "10.0.0.7" not in problem.message


def test_redirects_are_followed_three_times(site: Web) -> None:
    for number in range(4):
        site.pages[f"/{number}"] = body(b"", 302, Location=f"/{number + 1}")
    site.pages["/4"] = body(b"end")
    into = io.BytesIO()
    assert fetch_url(site.url("/1"), ON, MIB, into, rules=site.rules()).bytes == 3
    assert site.asked == [HOST] * 4
    assert "redirects" in refused("input_fetch_failed", site.url("/0"), site.rules()).message


@pytest.mark.parametrize(
    "target",
    ["https://internal.example/", "https://169.254.169.254/latest/", "http://files.example/",
     "//10.0.0.1/", "file:///etc/passwd", "https://u:p@files.example/", "https://[::1]/"],
)  # fmt: skip
@pytest.mark.parametrize("status", [301, 303, 307, 308])
def test_redirects_to_where_it_may_not_go(site: Web, target: str, status: int) -> None:
    site.pages["/"] = body(b"", status, Location=target)
    names = {host: [host] for host in ("169.254.169.254", "10.0.0.1", "::1")}
    rules = site.rules({"internal.example": ["192.168.0.5"], **names})
    refused("invalid_request", site.url("/"), rules)
    assert len(site.seen) == 1


def test_redirect_that_rebinds(site: Web) -> None:
    """Each hop is looked at anew: the same name leads elsewhere the second time."""
    site.pages["/"] = body(b"", 302, Location=site.url("/secret", "turn.example"))
    site.pages["/secret"] = body(b"secret")
    rules = site.rules({HOST: ["127.0.0.1"], "turn.example": ["10.0.0.1"]})
    refused("invalid_request", site.url("/"), rules)
    assert [path for path, _ in site.seen] == ["/"]


def test_certificate_is_checked_against_the_name(site: Web) -> None:
    site.pages["/"] = body(b"x")
    rules = site.rules({"other.example": ["127.0.0.1"]})
    refused("input_fetch_failed", site.url("/", "other.example"), rules)
    unknown = Rules(5, allowed=rules.allowed, resolve=rules.resolve)
    assert "CERTIFICATE" in refused("input_fetch_failed", site.url("/"), unknown).message.upper()
    assert site.seen == []


@pytest.mark.parametrize("announced", [True, False])
def test_bytes_are_bounded(site: Web, announced: bool) -> None:
    sent: list[int] = []

    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if announced:
            handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        for _ in range(4096):
            handler.wfile.write(b"x" * 65536)
            sent.append(65536)

    site.pages["/"] = flood
    refused("input_too_large", site.url("/"), site.rules(), max_bytes=MIB)
    assert sum(sent) < 32 * MIB


def test_exactly_the_bound_is_fetched(site: Web) -> None:
    site.pages["/"] = body(b"x" * 1000)
    into = io.BytesIO()
    assert fetch_url(site.url("/"), ON, 1000, into, rules=site.rules()).bytes == 1000
    refused("input_too_large", site.url("/"), site.rules(), max_bytes=999)


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
def test_compressed_content_is_refused(site: Web, coding: str) -> None:
    site.pages["/"] = body(gzip.compress(bytes(10**6)), Content_Encoding=coding)
    refused("input_fetch_failed", site.url("/"), site.rules())


@pytest.mark.parametrize("status", [204, 206, 304, 401, 404, 500])
def test_other_answers(site: Web, status: int) -> None:
    site.pages["/"] = body(b"", status)
    assert str(status) in refused("input_fetch_failed", site.url("/"), site.rules()).message


def _drip_body(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    _drip(handler)


def _drip_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _drip(handler)


def _drip(handler: BaseHTTPRequestHandler) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


@pytest.mark.parametrize("drip", [_drip_body, _drip_headers])
def test_time_is_bounded_however_slowly_it_drips(site: Web, drip: object) -> None:
    site.pages["/"] = drip  # type: ignore[assignment]
    message = refused("input_fetch_failed", site.url("/"), site.rules(seconds=1)).message
    assert "1 s" in message or "too long" in message


def test_slow_names_and_unknown_names() -> None:
    def slow(_host: str, _port: int) -> list[str]:
        time.sleep(30)
        return []

    def unknown(_host: str, _port: int) -> list[str]:
        raise socket.gaierror("no such name")

    refused("input_fetch_failed", "https://slow.example/", Rules(0.3, resolve=slow))
    refused("input_fetch_failed", "https://no.example/", Rules(5, resolve=unknown))
    refused("input_fetch_failed", "https://no.example/", Rules(5, resolve=lambda *_: []))


def test_secrets_in_an_address_are_not_repeated(site: Web) -> None:
    message = refused("input_fetch_failed", site.url("/x?token=hunter2"), site.rules()).message
    assert "hunter2" not in message


def test_no_proxy_of_the_environment(site: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    site.pages["/"] = body(b"x")
    assert fetch_url(site.url("/"), ON, MIB, io.BytesIO(), rules=site.rules()).bytes == 1
