"""Tenants and their keys."""

import hashlib

import pytest
from sqlalchemy import event, select

from server.database import Database
from server.database.tables import api_keys
from server.problems import Problem
from server.queue import keys, tenants
from tests.server.conftest import Clock


def test_a_key_is_shown_once_and_kept_as_a_hash(database: Database, clock: Clock) -> None:
    key, plain = keys.create_key(database, "acme", "ci", ["create", "read"], ["wan"], clock)
    assert plain.startswith("sk-vidgen-")
    assert len(plain) >= len("sk-vidgen-") + 43  # 256 bits
    assert (key.tenant, key.name, key.models) == ("acme", "ci", ("wan",))
    with database.read() as connection:
        row = connection.execute(select(api_keys)).one()
    assert row.hash == hashlib.sha256(plain.encode()).hexdigest()
    assert plain not in str(row)
    assert keys.find_key(database, plain, clock).id == key.id
    assert [tenant.id for tenant in tenants.list_tenants(database)] == ["acme"]
    other, text = keys.create_key(database, "acme", "ci", ["admin"], clock=clock)
    assert text != plain
    assert other.models is None
    assert len(keys.list_keys(database, "acme")) == 2
    assert keys.list_keys(database, "another") == []


def test_what_a_key_opens(database: Database) -> None:
    reader, _ = keys.create_key(database, "a", "r", ["read"])
    admin, _ = keys.create_key(database, "a", "a", ["admin"])
    assert [reader.may(scope) for scope in keys.SCOPES] == [False, True, False]
    assert [admin.may(scope) for scope in keys.SCOPES] == [True, True, True]
    for scopes in ([], ["root"]):
        with pytest.raises(Problem) as caught:
            keys.create_key(database, "a", "x", scopes)
        assert caught.value.param == "scopes"


def test_a_revoked_key_opens_nothing(database: Database, clock: Clock) -> None:
    key, plain = keys.create_key(database, "a", "x", ["read"], clock=clock)
    tenants.ensure(database, "b")
    with pytest.raises(Problem) as caught:
        keys.revoke_key(database, key.id, "b")
    assert caught.value.code == "not_found"
    assert keys.any_key(database)
    keys.revoke_key(database, key.id, "a", clock)
    clock.forward(5)
    keys.revoke_key(database, key.id, clock=clock)
    [listed] = keys.list_keys(database)
    assert listed.revoked_at == clock.now - 5
    assert not keys.any_key(database)
    for text in (plain, "sk-vidgen-guess"):
        with pytest.raises(Problem) as caught:
            keys.find_key(database, text)
        assert caught.value.code == "unauthorized"


def test_a_use_is_noted_once_a_minute(database: Database, clock: Clock) -> None:
    _, plain = keys.create_key(database, "a", "x", ["read"], clock=clock)
    assert keys.list_keys(database)[0].last_used_at is None
    writes: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def _count(conn: object, cursor: object, statement: str, *_: object) -> None:
        writes.extend([statement] if statement.startswith("UPDATE api_keys") else [])

    first = clock.now
    for _ in range(4):
        clock.forward(19)
        keys.find_key(database, plain, clock)
        assert keys.list_keys(database)[0].last_used_at == first + 19
    assert len(writes) == 1
    clock.forward(3)  # a minute after
    keys.find_key(database, plain, clock)
    assert keys.list_keys(database)[0].last_used_at == first + 79


def test_tenants_are_made_once_and_bounded(database: Database) -> None:
    made = tenants.ensure(database, "a")
    assert (made.weight, made.served, made.max_queued) == (1.0, 0.0, None)
    assert tenants.set_bounds(database, "a", weight=2.5, max_running=3).weight == 2.5
    assert tenants.ensure(database, "a").max_running == 3
    assert tenants.set_bounds(database, "a", max_running=None, name="Acme").max_running is None
    for bounds in ({"weight": 0}, {"weight": None}, {"max_queued": -1}, {"served": 0}):
        with pytest.raises(Problem) as caught:
            tenants.set_bounds(database, "a", **bounds)
        assert caught.value.code == "invalid_request"
    with pytest.raises(Problem) as caught:
        tenants.set_bounds(database, "nobody", weight=1.0)
    assert caught.value.code == "not_found"
