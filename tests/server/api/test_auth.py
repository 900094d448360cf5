"""Who may do what: keys, scopes, models, tenants; and an open server on a loopback."""

from typing import Any

import pytest

from server.api.app import create_app
from server.api.auth import Caller, may_still
from server.queue.keys import create_key, revoke_key
from server.settings import ServerSettings
from tests.server.api.site import Site
from vidgen.errors import BadRequest


def _bearer(site: Site, *scopes: str, tenant: str = "a", models: Any = None) -> dict[str, str]:
    _, plain = create_key(site.floor.db, tenant, "k", scopes, models)
    return {"Authorization": f"Bearer {plain}"}


def test_a_loopback_is_open_until_there_is_a_key(site: Site) -> None:
    assert site.http.get("/v1/videos").status_code == 200
    key = _bearer(site, "read")
    refused = site.http.get("/v1/videos")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert site.http.get("/v1/videos", headers=key).status_code == 200
    for bad in ("Bearer x", "Basic abc", "Bearer ", "Bearer \xe4"):
        answer = site.http.get("/v1/videos", headers={"Authorization": bad.encode("latin-1")})
        assert answer.status_code == 401
    assert site.http.get("/livez").status_code == 200


def test_scopes_models_and_tenants(site: Site) -> None:
    reader, maker = _bearer(site, "read"), _bearer(site, "create", "read")
    admin, other = _bearer(site, "admin"), _bearer(site, "create", "read", tenant="b")
    narrow = _bearer(site, "create", models=["wan2.1-t2v-1.3b"])
    post, get = site.http.post, site.http.get
    assert post("/v1/videos", json={"prompt": "x"}, headers=reader).status_code == 403
    made = post("/v1/videos", json={"prompt": "x"}, headers=maker).json()["id"]
    assert get(f"/v1/videos/{made}", headers=reader).status_code == 200
    for path in ("", "/content", "/events", "/stream.m3u8"):
        assert get(f"/v1/videos/{made}{path}", headers=other).status_code == 404
    assert post(f"/v1/videos/{made}/cancel", headers=other).status_code == 404
    assert site.http.delete(f"/v1/videos/{made}", headers=other).status_code == 404
    remix = post(f"/v1/videos/{made}/remix", json={"prompt": "x"}, headers=other)
    assert remix.status_code == 404
    assert get("/v1/videos", headers=other).json()["data"] == []
    refused = post("/v1/videos", json={"prompt": "x"}, headers=narrow)
    assert (refused.status_code, refused.json()["error"]["param"]) == (403, "model")
    for path in ("/v1/keys", "/v1/workers", "/v1/tenants"):
        assert get(path, headers=maker).status_code == 403
        assert get(path, headers=admin).status_code == 200
    assert post("/v1/videos", json={"prompt": "x"}, headers=admin).status_code == 200
    assert get("/v1/usage?tenant=b", headers=maker).status_code == 403
    assert get("/v1/usage?tenant=*&group_by=tenant,day", headers=admin).status_code == 200


def test_keys_are_made_shown_once_and_revoked(site: Site) -> None:
    made = site.http.post("/v1/keys", json={"name": "n", "tenant": "t", "scopes": ["admin"]}).json()
    head = {"Authorization": f"Bearer {made['key']}"}
    listed = site.http.get("/v1/keys", headers=head)
    assert [item["id"] for item in listed.json()["data"]] == [made["id"]]
    assert made["key"] not in listed.text
    assert site.http.delete(f"/v1/keys/{made['id']}", headers=head).json()["deleted"]
    other = _bearer(site, "read")
    assert site.http.get("/v1/videos", headers=head).status_code == 401
    assert site.http.get("/v1/videos", headers=other).status_code == 200
    assert site.http.post("/v1/keys", json={"name": "n", "scopes": ["root"]}).status_code == 401


def test_a_server_that_had_keys_never_opens_again(site: Site) -> None:
    key, plain = create_key(site.floor.db, "a", "only", ["admin"])
    revoke_key(site.floor.db, key.id)
    assert site.http.get("/v1/videos").status_code == 401
    assert site.http.get("/v1/videos", headers={"Authorization": f"Bearer {plain}"}).is_error


def test_who_follows_is_asked_for_again(site: Site) -> None:
    db = site.floor.db
    key, _ = create_key(db, "a", "k", ["read"])
    caller = Caller("a", key.id, frozenset({"read"}), None)
    assert may_still(db, caller)
    revoke_key(db, key.id)
    assert not may_still(db, caller)
    assert not may_still(db, Caller("default", None, frozenset({"admin"}), None))


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/v1/tenants/t", {"weight": 5e-324}, "weight=5e-324: must be at least 0.001"),
        ("/v1/tenants/t", {"max_running": 0}, "max_running=0: must be at least 1"),
        ("/v1/keys", {"name": "k", "models": []}, "models=[]: must have at least 1"),
    ],
)
def test_bounds_that_would_stop_the_queue_are_refused(
    site: Site, path: str, fields: dict[str, Any], said: str
) -> None:
    send = site.http.post if path == "/v1/keys" else site.http.patch
    answer = send(path, json=fields)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_an_open_server_refuses_pages_and_foreign_names(site: Site) -> None:
    """A page elsewhere can send a form, or bind its own name to 127.0.0.1."""
    form = {"data": {"prompt": "x"}}
    evil = site.http.post("/v1/videos", headers={"Origin": "https://evil.example"}, **form)
    assert evil.status_code == 403
    assert site.http.post("/v1/videos", headers={"Origin": "null"}, **form).status_code == 403
    own = site.http.post("/v1/videos", headers={"Origin": "http://127.0.0.1"}, **form)
    assert own.status_code == 200
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        answer = site.http.get("/v1/videos", headers={"Host": host})
        assert answer.status_code == 403, host
    for host in ("localhost:8000", "127.0.0.1", "[::1]:8000", "[::1]", "LocalHost"):
        assert site.http.get("/v1/videos", headers={"Host": host}).status_code == 200, host


def test_a_server_that_others_reach_needs_keys(sqlite: Any, tmp_path: Any) -> None:
    public = ServerSettings(host="0.0.0.0", database=str(sqlite.url))
    with pytest.raises(BadRequest, match="no API key"):
        create_app(public, tmp_path, database=sqlite)
    key, plain = create_key(sqlite, "a", "k", ["read"])
    site = Site(sqlite, tmp_path / "home", host="0.0.0.0")
    head = {"Authorization": f"Bearer {plain}", "Host": "any.example"}
    assert site.http.get("/v1/videos", headers=head).status_code == 200
    assert site.http.get("/metrics", headers=head).status_code == 403
    revoke_key(sqlite, key.id)
    assert site.http.get("/v1/videos", headers={"Host": "any.example"}).status_code == 401
    with pytest.raises(BadRequest, match="cors_origins"):
        create_app(ServerSettings(cors_origins=("*",)), tmp_path, database=sqlite)


def test_origins_that_are_named_may_call(sqlite: Any, tmp_path: Any) -> None:
    site = Site(sqlite, tmp_path / "home", cors_origins=("https://app.example",))
    head = {"Origin": "https://app.example"}
    answer = site.http.get("/v1/videos", headers=head)
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert "openai-poll-after-ms" in answer.headers["access-control-expose-headers"]
    other = site.http.get("/v1/videos", headers={"Origin": "https://evil.example"})
    assert (other.status_code, other.headers.get("access-control-allow-origin")) == (403, None)


def test_large_bodies_are_refused_before_they_are_read(sqlite: Any, tmp_path: Any) -> None:
    site = Site(sqlite, tmp_path / "home", max_body_mib=1)
    big = b"x" * (2**20 + 1)
    kind = {"Content-Type": "application/json"}
    told = site.http.post("/v1/videos", content=big, headers=kind)
    assert (told.status_code, told.json()["error"]["code"]) == (413, "input_too_large")
    untold = site.http.post("/v1/videos", content=iter([big]), headers=kind)
    assert untold.status_code == 413
