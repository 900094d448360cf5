"""Flag over environment over named file over project over user over recipe; origins are known."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PROMPT, save_lora, small
from vidgen.errors import BadRequest


@pytest.fixture
def layers(tmp_path: Path, vidgen_home: Path) -> Any:
    """Write the user's and the project's file; the user's is removed afterwards."""
    user = vidgen_home / "vidgen.toml"
    user.write_text("steps = 2\nfps = 8\ncfg = 2.0\nflow_shift = 2.0\nseed = 1\n", "utf-8")
    (tmp_path / "vidgen.toml").write_text("steps = 3\nfps = 10\ncfg = 3.5\nseed = 2\n", "utf-8")
    (tmp_path / "named.yaml").write_text("steps: 4\nfps: 12\nseed: 3\n", "utf-8")
    yield
    user.unlink()


def test_each_layer_outweighs_those_below(
    run: Any, tiny: str, layers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDGEN_STEPS", "5")
    monkeypatch.setenv("VIDGEN_FORCE_FPS", "14")
    ran = run(
        "generate", PROMPT, "--model", tiny, "--infer-steps", "6", "--config", "named.yaml",
        "--dry-run", "--json",
    )  # fmt: skip
    made = ran.last["plan"]
    assert made["num_inference_steps"] == 6  # flag
    assert made["fps"] == "14"  # environment
    assert made["seeds"] == [3]  # named file
    assert made["guidance_scale"] == 3.5  # project file
    assert made["flow_shift"] == 2.0  # user file
    assert made["num_frames"] == 17  # recipe


def test_show_says_where_each_value_comes_from(
    run: Any, tiny: str, layers: None, monkeypatch: pytest.MonkeyPatch, vidgen_home: Path
) -> None:
    monkeypatch.setenv("VIDGEN_STEPS", "5")
    monkeypatch.setenv("VIDGEN_MODEL", tiny)
    rows = run("config", "show", "--origin", "--json", "--config", "named.yaml").last["settings"]
    assert (rows["num_inference_steps"]["value"], rows["num_inference_steps"]["origin"]) == (
        "5",
        "VIDGEN_STEPS",
    )
    assert rows["fps"]["origin"] == "named.yaml"
    assert rows["guidance_scale"]["origin"] == "vidgen.toml"
    assert rows["flow_shift"]["origin"] == str(vidgen_home / "vidgen.toml")
    assert rows["num_frames"]["origin"] == f"recipe of {tiny}"
    assert rows["format"] == {"setting": "format", "value": "mp4", "origin": "default"}


def test_a_length_said_in_another_way_above_silences_the_one_below(
    run: Any, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "vidgen.toml").write_text("num_frames = 33\n", "utf-8")
    ran = run("generate", PROMPT, "--model", tiny, "--seconds", "1", "--dry-run", "--json")
    assert ran.code == 0, ran.out
    assert ran.last["plan"]["num_frames"] == 17


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("VIDGEN_STEPSS", "3", "VIDGEN_STEPS"),
        ("VIDGEN_STEPS", "many", "num_inference_steps"),
        ("VIDGEN_OFFLINE", "maybe", "VIDGEN_OFFLINE"),
        ("VIDGEN_CONFIG", "absent.toml", "absent.toml"),
    ],
)
def test_a_bad_variable_is_named(
    run: Any, tiny: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    ran = run("generate", PROMPT, "--model", tiny, "--out", "a.mp4")
    assert ran.code in (2, 4)
    assert said in ran.err


def test_variables_that_a_container_platform_injects_are_let_pass(
    run: Any, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDGEN_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("VIDGEN_PORT_80_TCP", "tcp://10.0.0.1:80")
    assert run("generate", PROMPT, *small(tiny), "--dry-run").code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stepps = 3\n", "steps"),
        ("steps = \n", "vidgen.toml"),
        ("steps = 3\nsample_steps = 4\n", "same field"),
    ],
)
def test_a_bad_file_is_named(run: Any, tiny: str, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "vidgen.toml").write_text(text, "utf-8")
    ran = run("generate", PROMPT, *small(tiny), "--dry-run")
    assert ran.code == 2
    assert "vidgen.toml" in ran.err
    assert said in ran.err


def test_lists_from_the_environment(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        save_lora(tmp_path / f"{name}.safetensors", ["blocks.0.attn1.to_q"])
    for text in ("a.safetensors:0.5,b.safetensors", '["a.safetensors:0.5", "b.safetensors"]'):
        monkeypatch.setenv("VIDGEN_LORAS", text)
        loras = run("generate", PROMPT, *small(tiny), "--dry-run", "--json").last["plan"]["loras"]
        assert [(item["path"], item["weight"]) for item in loras] == [
            (str(tmp_path / "a.safetensors"), 0.5), (str(tmp_path / "b.safetensors"), 1.0),
        ]  # fmt: skip


def test_set_changes_one_line_and_refuses_what_is_illegal(run: Any, tmp_path: Path) -> None:
    home = tmp_path / "own"
    home.mkdir()
    (home / "vidgen.toml").write_text("# mine\nfps = 8\n", "utf-8")
    assert run("config", "set", "steps", "4", "--home", home).code == 0
    assert run("config", "set", "fps", "24000/1001", "--home", home).code == 0
    assert run("config", "set", "device", "cpu", "--home", home).code == 0
    text = (home / "vidgen.toml").read_text("utf-8")
    assert text == '# mine\nfps = "24000/1001"\nnum_inference_steps = 4\ndevice = "cpu"\n'
    for name, value, said in (
        ("steps", "900", "200"),
        ("stepps", "3", "steps"),
        ("device", "gpu", "cuda:1"),
        ("offline", "perhaps", "neither yes nor no"),
        ("name_template", "{what}", "{seed}"),
    ):
        ran = run("config", "set", name, value, "--home", home)
        assert ran.code == 2
        assert said in ran.err
    assert (home / "vidgen.toml").read_text("utf-8") == text
    assert (
        run("config", "set", "loras", "a.safetensors:0.5,b.safetensors", "--home", home).code == 0
    )
    shown = run("config", "show", "--home", home, "--json").last["settings"]
    assert shown["loras"] == "['a.safetensors:0.5', 'b.safetensors']"
    shown = json.loads(run("config", "path", "--home", home, "--json").out)
    assert shown["files"] == ["vidgen.toml", str(home / "vidgen.toml")]


def test_set_replaces_a_line_that_says_the_same_in_another_way(run: Any, tmp_path: Path) -> None:
    home = tmp_path / "own"
    home.mkdir()
    file = home / "vidgen.toml"
    file.write_text("steps = 20\nseconds = 2\naspect = '1:1'\n", "utf-8")
    for name, value in (("num_inference_steps", 30), ("frames", 9), ("width", 64)):
        assert run("config", "set", name, value, "--home", home).code == 0
    assert file.read_text("utf-8") == "num_inference_steps = 30\nnum_frames = 9\nwidth = 64\n"
    file.write_text("size = '64x64'\n", "utf-8")
    ran = run("config", "set", "width", 32, "--home", home)
    assert (ran.code, file.read_text("utf-8")) == (2, "size = '64x64'\n")
    assert "size" in ran.err


def test_offline_holds_for_the_hub_before_it_is_asked(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def planned(*_: Any) -> None:
        seen.append(os.environ.get("HF_HUB_OFFLINE"))
        raise BadRequest("Far enough.")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr("vidgen.cli.generate.plan", planned)
    run("generate", PROMPT, "--dry-run")
    run("generate", PROMPT, "--dry-run", "--offline")
    assert seen == ["0", "1"]


def test_a_folder_in_the_place_of_a_settings_file_is_told(run: Any, tmp_path: Path) -> None:
    (tmp_path / "vidgen.toml").mkdir()
    ran = run("generate", "a ball", "--dry-run")
    assert ran.code == 2
    assert "vidgen.toml is a folder; move it away or put a file in its place." in ran.err
