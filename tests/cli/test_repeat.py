"""A file's clip comes again from its recipe, in another process and after the file was handled."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.cli.conftest import PROMPT, save_lora, small, spawn
from vidgen.cli.recipes import recipe_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """A file made by a process of its own."""
    folder = tmp_path_factory.mktemp("made")
    ran = spawn("generate", PROMPT, *small(tiny), "--out", "a.mp4", "--json", cwd=folder)
    assert ran.code == 0, ran.out + ran.err
    assert ran.err == ""
    return folder / "a.mp4"


def test_a_file_of_another_process_is_repeated_exactly(run: Any, made: Path) -> None:
    ran = run("repeat", made, "--expect", "exact", "--json")
    assert ran.code == 0, ran.out
    assert ran.last["verdict"] == "exact"
    assert ran.last["latents_equal"] is True
    assert ran.last["clips"][0]["path"] == "a-repeat.mp4"
    assert ran.last["changes"] == []
    assert run("repeat", made, "--expect", "close:60", "-o", "b.mp4").code == 0


def test_another_seed_is_no_exact_repeat(run: Any, made: Path) -> None:
    ran = run("repeat", made, "--seed", 8, "--expect", "exact")
    assert ran.code == 1
    assert "seed: 7 then, 8 now" in ran.err
    assert "it was not made: seed" in ran.out
    for expect, code in (("close:90", 1), ("close:1", 0)):
        ran = run("repeat", made, "--seed", 8, "--expect", expect, "-o", f"{expect[-2:]}.mp4")
        assert ran.code == code, ran.out
        assert "the latents are not equal; PSNR" in ran.out
    ran = run("repeat", made, "--seconds", "1", "--steps", 1, "--expect", "close:10", "--json")
    assert ran.code == 1
    assert ran.last["reason"].endswith("5 frames of 32x32 then, 17 frames of 32x32 now")
    assert run("repeat", made, "--seed", 8).code == 0
    assert run("repeat", made, "--expect", "near").code == 2


def test_settings_do_not_change_a_repeat_but_its_weights_are_told(
    run: Any, made: Path, tiny: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIDGEN_STEPS", "9")
    (tmp_path / "vidgen.toml").write_text("fps = 9\n", "utf-8")
    assert run("repeat", made, "--expect", "exact").code == 0
    recipe = run("info", made, "--json").last["recipe"]
    index = Path(tiny) / "model_index.json"
    before = index.read_text("utf-8")
    index.write_text(before + "\n", "utf-8")
    try:
        ran = run("repeat", made, "--expect", "exact", "-o", "c.mp4", "--json")
        verified = run("info", made, "--verify", "--json")
    finally:
        index.write_text(before, "utf-8")
    assert [item["field"] for item in ran.last["changes"]] == ["weights"]
    assert ran.last["changes"][0]["asked"] == recipe["weights"]
    assert (verified.code, verified.last["verify"][0]["ok"]) == (1, False)


def _remux(source: Path, target: Path, *, tone: bool) -> None:
    """Copy the pictures' packets into another file; with a tone, add sound."""
    with av.open(str(source)) as reading, av.open(str(target), "w") as writing:
        writing.metadata.update(reading.metadata)
        stream = writing.add_stream_from_template(reading.streams.video[0])
        sound: Any = writing.add_stream("aac", rate=48000) if tone else None
        for packet in reading.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                writing.mux(packet)
        if sound is not None:
            wave = np.sin(np.arange(16384) * 0.05).astype(np.float32).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(wave, format="fltp", layout="mono")
            frame.sample_rate, frame.time_base, frame.pts = 48000, Fraction(1, 48000), 0
            writing.mux(sound.encode(frame))
            writing.mux(sound.encode(None))


def test_info_reads_the_recipe_after_remux_and_sound(run: Any, made: Path, tmp_path: Path) -> None:
    recipe = run("info", made, "--json").last["recipe"]
    _remux(made, tmp_path / "copy.mkv", tone=False)
    _remux(made, tmp_path / "tone.mp4", tone=True)
    assert run("finish", made, "--audio", "tone.mp4", "-o", "sound.mp4").code == 0
    for name, has_sound in (("copy.mkv", False), ("tone.mp4", True), ("sound.mp4", True)):
        found = run("info", name, "--json").last
        steps = found["recipe"].pop("finish", [])
        assert found["recipe"] == recipe, name
        assert found["stream"]["has_audio"] is has_sound
        assert len(steps) == (name == "sound.mp4")
        assert PROMPT in run("info", name).out
    assert run("repeat", "copy.mkv", "--expect", "exact", "-o", "again.mp4").code == 0


def test_info_of_a_stranger_s_file(run: Any, tmp_path: Path) -> None:
    from vidgen.media import VideoWriter

    with VideoWriter(tmp_path / "x.mp4", width=32, height=32, fps=Fraction(8)) as writer:
        writer.write(np.zeros((3, 32, 32, 3), np.uint8))
    ran = run("info", "x.mp4", "--json")
    assert ran.code == 0
    assert ran.last["recipe"] is None
    assert ran.last["stream"]["fps"] == "8"
    assert run("info", "x.mp4", "--verify").code == 2
    assert run("repeat", "x.mp4").code == 2
    assert run("info", "absent.mp4").code == 4
    (tmp_path / "text.mp4").write_text("no video", "utf-8")
    assert run("info", "text.mp4").code == 2


def test_info_loads_no_model_library(made: Path) -> None:
    code = (
        "import sys\n"
        "from vidgen.cli.main import main\n"
        f"code = main(['info', {str(made)!r}])\n"
        "print(code, [n for n in ('torch', 'diffusers', 'transformers') if n in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_finish_makes_what_is_asked(run: Any, made: Path) -> None:
    ran = run("finish", made, "--trim", "0.0625-", "--size", "64x48", "-o", "b.webm", "--json")
    assert ran.code == 0, ran.out
    with av.open("b.webm") as container:
        frames = list(container.decode(video=0))
    assert (len(frames), frames[0].width, frames[0].height) == (4, 64, 48)
    assert json.loads(json.dumps(ran.last))["fps"] == "16"
    for words, said in (
        (["--trim", "x"], "1.5-3"),
        (["--size", "64"], "832x480"),
        (["-o", str(made)], "another --out"),
        (["-o", "b.avi"], ".mp4"),
    ):
        refused = run("finish", made, *words)
        assert refused.code == 2
        assert said in refused.err


def test_a_repeat_from_another_folder_finds_its_files_and_says_what_changed(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = tmp_path / "first.png"
    Image.fromarray(np.full((32, 32, 3), (200, 30, 30), np.uint8)).save(picture)
    save_lora(tmp_path / "one.safetensors", ["blocks.0.attn1.to_q"])
    words = ["--image", "first.png", "--lora", "one.safetensors", "--out", "a.mp4"]
    assert run("generate", PROMPT, *small(tiny), *words).code == 0
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    ran = run("repeat", "../a.mp4", "--expect", "exact", "--json")
    assert (ran.code, ran.last["changes"]) == (0, []), ran.out
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(picture)
    save_lora(tmp_path / "one.safetensors", ["blocks.0.attn1.to_k"])
    ran = run("repeat", "../a.mp4", "--expect", "exact", "-o", "b.mp4", "--steps", 1, "--json")
    assert ran.code == 1
    assert {item["field"] for item in ran.last["changes"]} == {
        f"file {picture}", f"file {tmp_path / 'one.safetensors'}", "input image",
        "num_inference_steps", "steps",
    }  # fmt: skip
    assert "load" not in ran.out.replace("offload", "")
    assert not Path("b.mp4").exists()


def test_what_a_repeat_cannot_make_is_refused(
    run: Any, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run("repeat", made, "-n", 4)
    assert (ran.code, "one clip" in ran.err) == (2, True)
    recipe = recipe_of(made)
    recipe["inputs"] = {"image": "0" * 64, "reference_0": "0" * 64}
    monkeypatch.setattr("vidgen.cli.repeat.recipe_of", lambda _: recipe)
    ran = run("repeat", made)
    assert ran.code == 2
    assert "held in memory (image, reference_images)" in ran.err
