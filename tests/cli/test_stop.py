"""Stopping and failing: what is left on disk, what is said, and how `decode` finishes it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch

from tests.cli.conftest import PROMPT, small
from vidgen import decode_clip
from vidgen.cli.report import Reporter
from vidgen.events import Progress

LATENTS = "a.mp4.latents.safetensors"
PROGRESS = Reporter.progress


def _frames(path: Path | str) -> Any:
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], list[Progress]]:
    """Send Ctrl-C `times` times when a stage has done so many steps; return what was reported."""

    def arm(stage: str, done: int, times: int = 1) -> list[Progress]:
        seen: list[Progress] = []

        def progress(self: Reporter, event: Progress, clip: int, clips: int) -> None:
            seen.append(event)
            PROGRESS(self, event, clip, clips)
            if (event.stage, event.done) == (stage, done):
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(Reporter, "progress", progress)
        return seen

    return arm


def test_ctrl_c_at_step_3_of_10_is_finished_by_decode(
    run: Any, tiny: str, tmp_path: Path, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = small(tiny, steps=10)
    assert run("generate", PROMPT, *words, "--out", "whole.mp4").code == 0
    before = signal.getsignal(signal.SIGINT)
    seen = at("denoise", 3)
    ran = run("generate", PROMPT, *words, "--out", "a.mp4")
    monkeypatch.setattr(Reporter, "progress", PROGRESS)
    assert ran.code == 130
    assert [event.done for event in seen if event.stage == "denoise"] == [1, 2, 3]
    assert f"vidgen decode {LATENTS}" in ran.err
    assert "Ctrl-C again" in ran.err
    assert signal.getsignal(signal.SIGINT) is before
    assert sorted(path.name for path in tmp_path.iterdir()) == [LATENTS, "whole.mp4"]
    assert run("generate", PROMPT, *words, "--out", "a.mp4").code == 2  # not lost to another run
    ran = run("decode", LATENTS, "--json")
    assert ran.code == 0, ran.err
    assert np.array_equal(_frames("a.mp4"), _frames("whole.mp4"))
    assert run("repeat", "a.mp4", "--expect", "exact").code == 0
    assert not (tmp_path / LATENTS).exists()


def test_what_was_stopped_is_not_kept_when_it_shall_not_be(
    run: Any, tiny: str, tmp_path: Path, at: Any
) -> None:
    at("denoise", 3)
    words = small(tiny, steps=10, keep_latents="never")
    ran = run("generate", PROMPT, *words, "--out", "a.mp4")
    assert ran.code == 130
    assert "--seed 7" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_a_second_ctrl_c_aborts(run: Any, tiny: str, tmp_path: Path, at: Any) -> None:
    at("denoise", 3, 2)
    ran = run("generate", PROMPT, *small(tiny, steps=10), "--out", "a.mp4", "--json")
    assert ran.code == 130
    assert ran.err == ""
    assert ran.last["error"]["code"] == "cancelled"
    assert "Aborted" in ran.last["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_during_decode_keeps_the_latents(
    run: Any, tiny: str, tmp_path: Path, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("generate", PROMPT, *small(tiny, frames=17), "--out", "whole.mp4").code == 0
    old = tmp_path / LATENTS
    old.write_bytes(b"of an earlier run")
    for keep in ("auto", "always", "never"):
        words = small(tiny, frames=17, keep_latents=keep)
        ran = run("generate", PROMPT, *words, "--out", "a.mp4")
        assert ran.code == 2
        assert f"vidgen decode {LATENTS}" in ran.err
        assert "load " not in ran.err
    assert old.read_bytes() == b"of an earlier run"
    old.unlink()
    with monkeypatch.context():
        at("decode", 2)
        ran = run("generate", PROMPT, *small(tiny, frames=17), "--out", "a.mp4")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert ran.code == 130
    assert f"vidgen decode {LATENTS}" in ran.err
    assert sorted(p.name for p in tmp_path.iterdir()) == [LATENTS, "whole.mp4"]
    info = run("info", LATENTS, "--json").last
    assert info["recipe"]["request"]["prompt"] == PROMPT
    done = run("decode", LATENTS, "--json")
    assert done.code == 0, done.out
    assert done.last["clips"][0]["path"] == "a.mp4"
    np.testing.assert_array_equal(_frames("a.mp4"), _frames("whole.mp4"))


def _out_of_memory(only_whole: bool) -> Any:
    honest = decode_clip.decode_groups

    def failing(vae: Any, latents: Any, *, tiled: bool, cancel: Any) -> Any:
        if tiled and only_whole:
            yield from honest(vae, latents, tiled=tiled, cancel=cancel)
        else:
            if only_whole:
                yield next(honest(vae, latents, tiled=tiled, cancel=cancel))
            raise torch.OutOfMemoryError("CUDA out of memory (by a test)")

    return failing


def test_a_decode_without_memory_keeps_the_latents_and_decode_finishes_them(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("generate", PROMPT, *small(tiny), "--out", "whole.mp4").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(decode_clip, "decode_groups", _out_of_memory(only_whole=False))
        ran = run("generate", PROMPT, *small(tiny), "--out", "a.mp4", "--json")
    assert ran.code == 3
    assert ran.last["error"]["code"] == "does_not_fit"
    message = ran.last["error"]["message"]
    assert f"vidgen decode {LATENTS}" in message
    assert message.count("latents are kept") == 1
    assert not (tmp_path / "a.mp4").exists()
    with monkeypatch.context() as patch:
        patch.setattr(decode_clip, "decode_groups", _out_of_memory(only_whole=False))
        never = run("generate", PROMPT, *small(tiny, keep_latents="never"), "--out", "b.mp4")
    assert never.code == 3
    assert "latents" not in never.err
    assert run("decode", LATENTS).code == 0
    np.testing.assert_array_equal(_frames("a.mp4"), _frames("whole.mp4"))
    recipes = [run("info", f, "--json").last["recipe"] for f in ("a.mp4", "whole.mp4")]
    assert recipes[0]["latents_sha256"] == recipes[1]["latents_sha256"]
    assert recipes[0]["trace"]["forwards"] == recipes[1]["trace"]["forwards"]


def test_a_decode_that_is_retried_in_tiles_says_so_everywhere(
    run: Any, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode_clip, "decode_groups", _out_of_memory(only_whole=True))
    ran = run("generate", PROMPT, *small(tiny), "--out", "a.mp4", "--sheet", "a.png")
    assert ran.code == 0, ran.err
    assert len(_frames("a.mp4")) == 5
    assert "vae_tiling: auto -> on" in ran.err
    recipe = run("info", "a.mp4", "--json").last["recipe"]
    assert [(i["field"], i["used"]) for i in recipe["adjustments"]] == [("vae_tiling", "on")]
    assert recipe["trace"]["vae_tiled"] is True


def test_a_kill_during_decode_leaves_latents_that_decode_finishes(
    run: Any, tiny: str, tmp_path: Path
) -> None:
    flags = small(tiny, frames=241, size="64x64", steps=1)
    words = [sys.executable, "-m", "vidgen.cli", "generate", PROMPT, *flags, "--out", "a.mp4"]
    with subprocess.Popen([*words, "--json"], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event.get("stage") == "decode":
                process.kill()
                break
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "a.mp4").exists()
    assert (tmp_path / LATENTS).exists()
    assert run("decode", LATENTS, "--format", "webm", "--vae-tiling", "on").code == 0
    assert len(_frames("a.webm")) == 241
    assert (tmp_path / LATENTS).exists()
    assert run("gc", ".", "--older-than", "0m").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.webm"]


def test_decode_refuses_what_is_no_latents(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    for name, code in (("absent.latents.safetensors", 4), ("x.safetensors", 2)):
        ran = run("decode", name)
        assert ran.code == code
        assert name in ran.err


@pytest.mark.parametrize("keep", ["always", "never"])
def test_latents_are_kept_as_asked(run: Any, tiny: str, tmp_path: Path, keep: str) -> None:
    assert run("generate", PROMPT, *small(tiny, keep_latents=keep), "--out", "a.mp4").code == 0
    assert (tmp_path / LATENTS).exists() == (keep == "always")
