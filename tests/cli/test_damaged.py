"""Damaged weight files are sentences in every command that reads their headers."""

import shutil
from pathlib import Path
from typing import Any

from tests.cli.conftest import save_lora


def test_damaged_weights_are_sentences(run: Any, tiny: str, tmp_path: Path) -> None:
    save_lora(tmp_path / "good.safetensors", ["blocks.0.attn1.to_q"])
    data = (tmp_path / "good.safetensors").read_bytes()
    for name, damaged in (
        ("cut", data[:-9]),
        ("junk", b"x" * 64),
        ("list", b"\2" + b"\0" * 7 + b"[]"),
    ):
        (tmp_path / f"{name}.safetensors").write_bytes(damaged)
        ran = run("loras", "check", f"{name}.safetensors", "--model", tiny)
        assert (ran.code, "Traceback" in ran.err) == (2, False)
        assert f"{name}.safetensors" in ran.err
    found = run("loras", "ls", "--json").last
    assert [item["file"] for item in found["loras"]] == ["good.safetensors"]
    assert [text.split()[0] for text in found["damaged"]] == [
        "cut.safetensors", "junk.safetensors", "list.safetensors",
    ]  # fmt: skip
    model = shutil.copytree(tiny, tmp_path / "model")
    (model / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"x" * 64)
    (model / "transformer" / "x.safetensors.index.json").write_text("[]")
    ran = run("models", "check", model, "--json")
    assert ran.code == 4
    missing = {part["part"]: part["missing"] for part in ran.last["parts"]}
    assert missing["vae"] == ["the end of diffusion_pytorch_model.safetensors"]
    assert missing["transformer"] == ["a readable x.safetensors.index.json"]
