"""The gate: keys, other origins, foreign names, and paths that lead out of what is served."""

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from demos.studio import mount, studio_app
from server.api.app import create_app
from server.queue.keys import create_key
from server.settings import ServerSettings
from vidgen.errors import BadRequest, VidgenError

OUTSIDE = ("../studio.py", "..%2fstudio.py", "%2e%2e/form.py", "../../pyproject.toml", "form.py",
           "/etc/passwd", "....//studio.py", "studio.css/..", "")  # fmt: skip
CLOSED = (
    "gradio_api/file=/etc/passwd", "gradio_api/file=../../etc/passwd", "gradio_api/upload",
    "file=/etc/passwd", "file/etc/passwd", "gradio_api/proxy=http://169.254.169.254/latest",
    "proxy=https://example.com/", "gradio_api/stream/a/b/playlist.m3u8", "monitoring",
    "gradio_api/component_server", "gradio_api/deep_link", "gradio_api/dev/reload",
    "static/../../form.py", "static/..%2f..%2fform.py", "assets/..%2f..%2f..%2fetc/passwd",
    "custom_component/a/b/c/../../etc", "svelte/..%2f..%2fform.py",
)  # fmt: skip
NOT_PASSED = ("keys", "tenants/default", "../healthz", "videos/../keys", "videos/%2e%2e/keys",
              "videos//keys", "http://example.com", "webhook_endpoints", "videos/a/b/c/d/e/f/g"
              )  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home of a server."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def app(home: Path) -> FastAPI:
    """Return the server's app with the studio in it."""
    settings = ServerSettings()
    made = create_app(settings, home)
    mount(made, settings)
    return made


@pytest.fixture
def web(app: FastAPI) -> TestClient:
    """Return a browser's side of it; its loops do not run."""
    return TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False)


def test_the_page_and_its_own_files_are_served(web: TestClient) -> None:
    first = web.get("/", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (307, "/ui/")
    assert web.get("/ui/").status_code == 200
    script = web.get("/ui/web/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert web.get("/ui/api/queue").json()["object"] == "queue"
    assert web.get("/ui/api/health").json()["checks"]["database"] is True


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_other_file_is_served(web: TestClient, path: str) -> None:
    assert web.get(f"/ui/web/{path}").status_code == 404


@pytest.mark.parametrize("path", CLOSED)
def test_gradios_own_file_routes_are_closed(web: TestClient, path: str) -> None:
    for method in ("GET", "POST", "HEAD"):
        answer = web.request(method, f"/ui/{path}")
        closed = (404,) if "../" not in path and "%2f" not in path else (403, 404, 405)
        assert answer.status_code in closed, answer.text
        assert "root:" not in answer.text
        assert "import " not in answer.text


@pytest.mark.parametrize("path", NOT_PASSED)
def test_only_the_api_of_videos_is_passed_on(web: TestClient, path: str) -> None:
    assert web.get(f"/ui/api/{path}").status_code == 404


def test_a_link_in_the_folder_of_the_cache_is_not_followed(
    web: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "link.txt").symlink_to(secret)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(cache))
    for path in (cache / "link.txt", secret):
        answer = web.get(f"/ui/gradio_api/file={path}")
        assert answer.status_code == 404
        assert "secret" not in answer.text


def test_pages_of_other_origins_are_refused(web: TestClient) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999"):
        for path in ("api/videos", "gradio_api/queue/join", "login"):
            answer = web.post(f"/ui/{path}", json={}, headers={"origin": origin})
            assert answer.status_code == 403, (origin, path)


def test_an_address_is_never_fetched_for_a_client(web: TestClient) -> None:
    request = {"prompt": "a", "image": "http://169.254.169.254/latest/meta-data"}
    answer = web.post("/ui/api/videos", json=request)
    assert answer.status_code == 400
    answer = web.post("/ui/api/videos", json={"prompt": "a", "image": "/etc/passwd"})
    assert answer.status_code == 400


def test_loras_are_listed_by_name(tmp_path: Path) -> None:
    (tmp_path / "grain.safetensors").write_bytes(b"")
    settings = ServerSettings(lora_folder=str(tmp_path))
    app = create_app(settings, tmp_path / "home")
    mount(app, settings)
    web = TestClient(app, base_url="http://127.0.0.1:8000")
    assert [item["id"] for item in web.get("/ui/api/loras").json()["data"]] == ["grain"]


def test_a_file_that_is_no_picture_is_refused(web: TestClient) -> None:
    page = b"<!doctype html><script>alert(1)</script>"
    answer = web.post("/ui/api/uploads", files={"file": ("a.png", page, "image/png")})
    assert answer.status_code == 415
    assert answer.json()["error"]["message"].startswith("a.png ")


def test_a_server_with_keys_asks_each_person_for_one(tmp_path: Path) -> None:
    settings = ServerSettings()
    app = create_app(settings, tmp_path)
    mount(app, settings)
    _, key = create_key(app.state.services.database, "default", "me", ("create", "read"), None)
    web = TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False)
    assert web.get("/ui/").headers["location"] == "/ui/login"
    assert web.get("/ui/config").status_code == 401
    assert web.get("/ui/api/queue").status_code == 401
    assert web.post("/ui/login", data={"key": "sk-vidgen-wrong"}).status_code == 401
    answer = web.post("/ui/login", data={"key": key})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert web.get("/ui/").status_code == 200
    assert web.get("/ui/api/queue").status_code == 200
    assert key not in web.get("/ui/config").text
    assert web.get("/ui/logout").status_code == 404  # a link signs nobody out
    assert web.get("/ui/").status_code == 200
    answer = web.post("/ui/logout", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert web.post("/ui/logout").headers["location"] == "/ui/login"
    assert not web.cookies
    assert web.get("/ui/api/queue").status_code == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_a_public_studio_is_refused_unless_the_server_asks_for_keys(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"status": 200}
    monkeypatch.setattr(httpx, "get", lambda *_a, **_k: httpx.Response(told["status"]))
    with pytest.raises(BadRequest, match="no API key"):
        studio_app("http://127.0.0.1:8000", None, host)
    with pytest.raises(BadRequest, match="would use its key"):
        studio_app("http://127.0.0.1:8000", "sk-vidgen-mine", host)


def test_a_public_studio_needs_to_know_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_a: object, **_k: object) -> httpx.Response:
        raise httpx.ConnectError("away")

    monkeypatch.setattr(httpx, "get", away)
    with pytest.raises(VidgenError, match="does not answer"):
        studio_app("http://127.0.0.1:8000", None, "0.0.0.0")


def test_a_studio_alone_answers_only_under_this_machines_names() -> None:
    web = TestClient(studio_app("http://127.0.0.1:9", None), base_url="http://evil.example")
    assert web.get("/ui/").status_code == 403
    for name in ("localhost", "[::1]", "127.0.0.1"):
        web = TestClient(studio_app("http://127.0.0.1:9", None), base_url=f"http://{name}:7860")
        assert web.get("/ui/").status_code == 200
    error = web.get("/ui/api/queue")
    assert error.status_code == 503
    assert "does not answer" in error.json()["error"]["message"]
