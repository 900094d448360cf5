"""Keys and tenants, with no server running."""

from pathlib import Path
from typing import Any

import pytest

from server.cli.places import open_existing
from server.problems import Problem
from server.queue.keys import find_key
from server.settings import ServerSettings


def test_a_key_is_made_shown_once_and_ended(run: Any, tmp_path: Path) -> None:
    words = ["--name", "laptop", "--tenant", "studio", "--scopes", "create,read",
             "--models", "toyworld"]  # fmt: skip
    made = run("keys", "create", *words, "--json").last
    assert "never" in run("keys", "ls").out
    db = open_existing(ServerSettings().with_home(tmp_path / "home"))
    known = find_key(db, made["key"])
    assert (known.tenant, known.scopes, known.models) == ("studio", ("create", "read"),
                                                          ("toyworld",))  # fmt: skip
    shown = run("keys", "ls")
    assert "laptop" in shown.out
    assert made["key"] not in shown.out
    assert run("keys", "revoke", made["id"]).code == 0
    with pytest.raises(Problem, match="revoked"):
        find_key(db, made["key"])
    db.close()
    ran = run("keys", "revoke", "key_none")
    assert ran.code == 4
    assert "There is no key 'key_none'" in ran.err


def test_a_scope_that_does_not_exist_is_refused(run: Any) -> None:
    ran = run("keys", "create", "--scopes", "write")
    assert ran.code == 2
    assert "create, read, admin" in ran.err


def test_a_tenant_has_bounds_that_can_be_taken_away(run: Any) -> None:
    run("keys", "create", "--tenant", "studio")
    run("keys", "tenants", "set", "studio", "--weight", "3", "--max-queued", "7")
    set_ = run("keys", "tenants", "set", "studio", "--max-queued", "none",
               "--budget-per-month", "9.5", "--json").last  # fmt: skip
    assert (set_["weight"], set_["max_queued"], set_["budget_per_month"]) == (3.0, None, 9.5)
    assert "studio" in run("keys", "tenants", "ls").out
    for words, said in (
        (["--weight", "0"], "weight=0.0: must be"),
        (["--weight", "5e-324"], "weight=5e-324: must be at least 0.001"),
        (["--weight", "much"], "neither a number"),
        ([], "at least one"),
    ):
        ran = run("keys", "tenants", "set", "studio", *words)
        assert ran.code == 2
        assert said in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tenant", "../x"], "tenant='../x': must match"),
        (["--name", ""], "name='': must not be empty"),
        (["--name", "a" * 5000], "must have at most 256 characters"),
        (["--scopes", ""], "scopes=[]: must have at least 1 of them"),
    ],
)
def test_a_key_that_the_api_would_refuse_is_refused(run: Any, words: list[str], said: str) -> None:
    ran = run("keys", "create", *words)
    assert ran.code == 2
    assert said in ran.err
    assert "There is no key." in run("keys", "ls").out
