"""Settings: flag over environment over files over default; declared once, slips are told."""

import difflib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from server.cli.settings import gather_settings
from server.settings import ServerSettings, masked
from vidgen.cli.options import Common
from vidgen.errors import BadRequest, NotFound
from vidgen.request_names import explain
from vidgen.settings import environment_names

FIELDS = ServerSettings.model_fields


def test_every_setting_is_an_option_with_its_text(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    for command in ("serve", "worker"):
        shown = " ".join(run(command, "--help").out.replace("│", " ").split())
        for name, info in FIELDS.items():
            assert f"--{name.replace('_', '-')} " in shown
            assert str(info.description) in shown


def test_each_layer_outweighs_those_below(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    lower = "[server]\nport = 1\nmax_queued = 11\nageing_seconds = 5\nprice_per_gpu_hour = 2.5\n"
    (tmp_path / "home" / "vidgen.toml").write_text(lower)
    (tmp_path / "vidgen.toml").write_text("steps = 3\n[server]\nport = 2\nmax-queued = 12\n")
    monkeypatch.setenv("VIDGEN_PORT", "3")
    monkeypatch.setenv("VIDGEN_AGEING_SECONDS", "7")
    ran = run("serve", "--port", "4", "--no-previews", "--dry-run", "--json")
    shown = ran.last["settings"]
    assert shown["port"] == {"value": "4", "origin": "flag"}
    assert shown["previews"] == {"value": "no", "origin": "flag"}
    assert shown["ageing_seconds"] == {"value": "7", "origin": "VIDGEN_AGEING_SECONDS"}
    assert shown["max_queued"] == {"value": "12", "origin": "vidgen.toml"}
    user = str(tmp_path / "home" / "vidgen.toml")
    assert shown["price_per_gpu_hour"] == {"value": "2.5", "origin": user}
    assert shown["host"] == {"value": "127.0.0.1", "origin": "default"}


def test_several_values_come_as_a_list_or_with_commas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origins = ("https://a.example", "https://b.example")
    for text in (",".join(origins), json.dumps(origins)):
        found, _ = gather_settings({"cors_origins": text}, Common(home=tmp_path), environ={})
        assert found.cors_origins == origins


@pytest.mark.parametrize(
    ("words", "environ", "file", "said"),
    [
        (["--prot", "1"], {}, "", "--port"),
        ([], {"VIDGEN_MAX_QUEUD": "1"}, "", "did you mean VIDGEN_MAX_QUEUED"),
        ([], {}, "[server]\nmax_queud = 1\n", "did you mean max_queued"),
        ([], {}, "[server]\nport = 70000\n", "(from vidgen.toml)"),
        ([], {"VIDGEN_PORT": "many"}, "", "(from VIDGEN_PORT)"),
        (["--log-format", "xml"], {}, "", "log_format='xml'"),
        ([], {}, "server = 3\n", "must be a table"),
    ],
)
def test_a_slip_is_told_with_its_place(
    run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environ: dict[str, str],
    file: str,
    said: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "vidgen.toml").write_text(file)
    ran = run("serve", *words, "--dry-run", "--device", "cpu")
    assert ran.code == 2
    assert said in ran.err


def test_a_password_is_never_shown(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDGEN_DATABASE", "postgresql://vidgen:p@ss:word@db.example/vidgen")
    ran = run("serve", "--dry-run", "--device", "cpu")
    assert "postgresql://vidgen:***@db.example/vidgen" in ran.out
    assert "ss:word" not in ran.out + ran.err
    monkeypatch.setenv("VIDGEN_DATABASE", "mysql://vidgen:secret@db.example/vidgen")
    ran = run("keys", "ls")
    assert ran.code == 2
    assert "mysql://vidgen:***@" in ran.err
    assert masked("s3://bucket/a:b@c") == "s3://bucket/a:b@c"


def test_the_settings_of_the_server_do_not_disturb_other_commands(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are so like a field of a request that they would be taken for a slip."""
    names = environment_names()
    variables = {f"VIDGEN_{name.upper()}" for name in FIELDS}
    assert not variables & names.keys()
    like = [n for n in variables if difflib.get_close_matches(n, names, n=1, cutoff=0.85)]
    assert like
    for variable in like:
        monkeypatch.setenv(variable, "1")
    (tmp_path / "vidgen.toml").write_text("steps = 3\n[server]\nport = 2\n")
    ran = run("generate", "a ball", "--dry-run", "--json", "--device", "cpu")
    assert ran.code == 0, ran.err
    assert ran.last["plan"]["num_inference_steps"] == 3
    assert run("config", "set", "fps", "8").code == 0


def test_a_missing_named_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.toml does not exist"):
        gather_settings({}, Common(home=tmp_path, config=tmp_path / "none.toml"), environ={})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"lease_seconds": 1, "heartbeat_seconds": 5},
            "at least twice heartbeat_seconds=5",
        ),
        (
            {"public_url": "not a url"},
            "public_url='not a url': must be http(s)://host[:port][",
        ),
        ({"public_url": "https://x:99999"}, "must be http(s)"),
        ({"public_url": "javascript:alert(1)"}, "must be http(s)"),
        ({"public_url": "https://x/?a=1"}, "must be http(s)"),
        ({"cors_origins": ["foo"]}, "cors_origins=['foo']: must be http(s)://host[:port]"),
        ({"cors_origins": ["https://a.example/path"]}, "must be http(s)://host[:port]"),
        ({"max_queued": True}, "must not be true or false"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        ServerSettings.model_validate(settings)
    assert said in explain(caught.value).message


def test_settings_that_can_work_are_taken() -> None:
    good = {
        "public_url": "https://video.example.com/api",
        "cors_origins": ["https://a.example:8443"],
    }
    assert ServerSettings.model_validate(good).public_url == good["public_url"]


def test_a_settings_file_that_is_a_folder_is_told(run: Any, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "home"):
        path = place / "vidgen.toml"
        path.mkdir(parents=True)
        with pytest.raises(BadRequest, match=r"vidgen\.toml is a folder; move it away"):
            gather_settings({}, Common(home=tmp_path / "home"), environ={}, folder=tmp_path)
        path.rmdir()
