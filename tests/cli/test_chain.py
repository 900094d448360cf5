"""`vidgen chain`: from the flags to one video, stopped and gone on with, and what is refused."""

import fcntl
import os
import shlex
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest

from chaining.cli.work import exit_code
from chaining.story import parse_story
from tests.cli.conftest import PROMPT, Ran, small
from vidgen.cli.report import Reporter
from vidgen.events import Progress

SHOWN = Reporter.progress


@pytest.fixture(autouse=True)
def _no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def frames_of(path: Path | str) -> Any:
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str, int], None]:
    """Send Ctrl-C `times` times when a clip, counted from 1, has done a step of a stage."""

    def arm(clip: int, stage: str, times: int = 1) -> None:
        def progress(self: Reporter, event: Progress, number: int, clips: int) -> None:
            SHOWN(self, event, number, clips)
            if (number, event.stage, event.done) == (clip, stage, 1):
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)

        monkeypatch.setattr(Reporter, "progress", progress)

    return arm


def chain(run: Any, tiny: str, *words: Any, **changes: Any) -> Ran:
    flags = small(tiny, **{"frames": 17, **changes})
    ran: Ran = run("chain", *flags, *words)
    return ran


def test_a_dry_run_counts_every_frame(run: Any, tiny: str, tmp_path: Path) -> None:
    """By hand: clips have 4n+1 frames, one of them is the hand-over, 16 frames are a second."""
    ran = chain(run, tiny, "--shot", "2s: a", "--shot", "0.5s: b", "--dry-run", "--json")
    assert ran.code == 0, ran.out
    plan = ran.last
    got = [(c["shot"], c["num_frames"], c["first"] + c["overlap"], c["stop"])
           for c in plan["clips"]]  # fmt: skip
    assert got == [(0, 17, 0, 17), (0, 17, 17, 33), (1, 9, 33, 41)]
    assert (plan["num_frames"], plan["num_frames_made"], plan["num_frames_dropped"]) == (41, 43, 2)
    assert plan["seconds"] == 41 / 16
    assert plan["seed"] == 7
    assert len({c["seed"] for c in plan["clips"]}) == 3
    asked = {item["field"]: (item["asked"], item["used"]) for item in plan["adjustments"]}
    assert asked == {"shots.0.seconds": (2.0, 33 / 16)}
    cost = plan["estimate"]
    assert 0 < cost["seconds"]["low"] < cost["seconds"]["high"]
    # Lossless frames of 16 bits a colour: half a byte a pixel is less than any of them takes.
    assert cost["folder_bytes"]["low"] > 43 * 32 * 32 / 2
    assert list(tmp_path.iterdir()) == []
    text = chain(run, tiny, "--shot", "2s: a", "--shot", "0.5s: b", "--dry-run").out
    assert "41 frames at 16 fps, 2.562 s" in text
    assert "43, of which 2 are not shown" in text


def test_the_cost_of_a_chain_is_that_of_its_clips(run: Any, tiny: str) -> None:
    def seconds(*words: Any) -> float:
        ran = chain(run, tiny, PROMPT, "--dry-run", "--json", "--image", "a.png", *words)
        assert ran.code == 0, ran.out
        low: float = ran.last["estimate"]["seconds"]["low"]
        return low

    from PIL import Image

    Image.fromarray(np.full((32, 32, 3), 90, np.uint8)).save("a.png")
    one, three = seconds("--seconds", 17 / 16), seconds("--seconds", 49 / 16)
    assert three == pytest.approx(3 * one, rel=1e-6)
    again = seconds("--seconds", 49 / 16, "--best-of-seams", 2)
    assert again == pytest.approx(5 * one, rel=1e-6)


def test_flags_outweigh_the_storyboard(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "seed: 3\nstrategy: overlap\nhandover: {overlap: 5, mode: noise}\n"
        "request: {num_frames: 9, steps: 7}\n"
        "shots:\n- {prompt: a, seconds: 1}\n- {prompt: b, seconds: 1, transition: cut}\n"
    )
    flags = [f"--model={tiny}", "--size=32x32", "--handover-mode", "pin", "--storyboard", "s.yaml"]
    plan = run("chain", *flags, "--dry-run", "--json").last
    assert (plan["seed"], {c["strategy"] for c in plan["clips"]}) == (3, {"overlap"})
    assert max(c["num_frames"] for c in plan["clips"]) == 9
    assert [c["overlap"] for c in plan["clips"]].count(5) == len(plan["clips"]) - 2
    plan = run("chain", *flags, "--dry-run", "--json", "--seed", 4, "--frames", 13).last
    assert (plan["seed"], max(c["num_frames"] for c in plan["clips"])) == (4, 13)


def test_ctrl_c_keeps_what_is_finished_and_the_printed_command_goes_on(
    run: Any, tiny: str, tmp_path: Path, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (PROMPT, "--seconds", 2, "--out")
    whole = chain(run, tiny, *words, "whole.mp4", "--json")
    assert whole.code == 0, whole.out
    events = [line["event"] for line in whole.lines]
    assert events[0] == "schedule"
    assert [line["clip"] for line in whole.lines if line["event"] == "clip_begins"] == [1, 2]
    clips = [line for line in whole.lines if line["event"] == "clip"]
    assert [(c["clip"], c["shown"], c["prompt"]) for c in clips] == [(1, 17, PROMPT),
                                                                    (2, 16, PROMPT)]  # fmt: skip
    assert (whole.last["num_frames"], whole.last["state"]) == (33, "finished")
    assert frames_of("whole.mp4").shape == (33, 32, 32, 3)
    told = run("info", "whole.mp4").out
    assert f"frames 17 to 32, last_frame, seed {clips[1]['seed']}: {PROMPT}" in told
    refused = run("repeat", "whole.mp4")
    assert refused.code == 2
    assert "is no single clip; `vidgen chain --resume`" in refused.out + refused.err
    other = run("chain", "--resume", "--folder", "whole.chain", "--out", "other.mkv",
                "--format", "master")  # fmt: skip
    assert other.code == 0, other.out + other.err
    assert len(frames_of("other.mkv")) == 33

    at(2, "denoise")
    ran = chain(run, tiny, *words, "a.mp4")
    monkeypatch.setattr(Reporter, "progress", SHOWN)
    assert ran.code == 130
    assert "Ctrl-C again" in ran.err
    assert "1 of 2 clips are finished, the first 1 of the video are in a.mp4" in ran.err
    assert "clip 1/2  17 frames, 1.06 s" in ran.err
    assert len(frames_of("a.mp4")) == 17
    command = shlex.split(ran.err.split("`")[1])
    assert command[0] == "vidgen"
    path = Path("a.chain/manifest.json")
    path.write_text(path.read_text().replace('"torch": "', '"torch": "1.'))
    ran = run(*command[1:], "--drift-stop=false", "--max-chain", 9)
    assert ran.code == 0, ran.err
    assert "goes on in another environment (torch: '1." in ran.err
    assert "a.mp4  32x32, 33 frames at 16 fps, 2.062 s, 2 clips, seed 7" in ran.out
    assert (frames_of("a.mp4") == frames_of("whole.mp4")).all()

    ran = run(*command[1:], "--from-clip", 1, "--json")  # the same clip, made anew
    assert ran.code == 0, ran.out
    assert ran.last["takes"] == ["000-0", "001-1"]
    assert (frames_of("a.mp4") == frames_of("whole.mp4")).all()

    ran = chain(run, tiny, *words, "a.mp4")
    assert ran.code == 2
    assert "a.chain holds a chain already; go on with --resume" in ran.err
    ran = chain(run, tiny, PROMPT, "--seconds", 2, "--out", "a.mp4", "--resume", steps=3)
    assert ran.code == 2
    assert "num_inference_steps" in ran.err


def test_a_second_ctrl_c_aborts(run: Any, tiny: str, at: Any) -> None:
    at(1, "denoise", 2)
    ran = chain(run, tiny, PROMPT, "--seconds", 2, "--out", "a.mp4", "--json")
    assert ran.code == 130
    assert "Aborted" in ran.last["error"]["message"]
    assert not Path("a.mp4").exists()


def test_strict_asks_for_the_verdict(run: Any, tiny: str) -> None:
    """One clip has no slope: what drifts cannot be told, and strict says so in its code."""
    ran = chain(run, tiny, PROMPT, "--seconds", 17 / 16, "--out", "a.mp4", "--json", "--strict")
    assert ran.last["drift"]["verdict"] == "inconclusive", ran.out
    assert ran.code == 12


@pytest.mark.parametrize(
    ("verdict", "plain", "strict", "stop"),
    [("pass", 0, 0, 0), ("warn", 0, 10, 0), ("fail", 0, 11, 11), ("inconclusive", 0, 12, 0)],
)
def test_exit_codes(verdict: str, plain: int, strict: int, stop: int) -> None:
    result: Any = SimpleNamespace(drift=SimpleNamespace(verdict=SimpleNamespace(overall=verdict)))
    shots = {"shots": [{"prompt": "a", "seconds": 1}]}
    assert exit_code(result, parse_story(shots)) == plain
    assert exit_code(result, parse_story({**shots, "request": {"strict": True}})) == strict
    assert exit_code(result, parse_story({**shots, "controls": {"drift_stop": True}})) == stop


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "The story is empty: give a prompt"),
        (["x"], 2, "give --seconds"),
        (["x", "--shot", "1s: a"], 2, "a prompt and --shot both tell the story"),
        (["--shot", "1s a"], 2, "'1s a' is no shot"),
        (["--shot", "1s: a", "--seconds", 3], 2, "--seconds is the length of a story of one"),
        (["x", "--seconds", 3, "-n", 2], 2, "--n is set by the chain for each clip"),
        (["x", "--seconds", 3, "--video", "a.mp4"], 2, "vidgen extend continues a video"),
        (["x", "--seconds", 3, "--strategy", "best"], 2, "'single', 'last_frame'"),
        (["x", "--seconds", 3, "--best-of-seams", 9], 2, "best_of_seams"),
        (["x", "--seconds", 3, "--colour-loc", "off"], 2, "--colour-lock"),
        (["x", "--seconds", 3, "--strict"], 2, "strict allows no adjustment: shots.0.seconds"),
        (["x", "--seconds", 3, "--end-image", "no.png"], 4, "no.png"),
        (["x", "--seconds", 3, "--strategy", "overlap", "--handover-overlap", 6], 2, "use 5"),
        (["x", "--seconds", 3, "--out", "a.avi"], 2, "a.mp4"),
        (["x", "--seconds", 3, "--report", "a.pdf"], 2, "must end in .html"),
        (["x", "--seconds", 3, "--from-clip", 1], 2, "give --resume too"),
        (["--storyboard", "no.yaml"], 4, "no.yaml does not exist"),
        (["--resume"], 2, "give its --folder"),
        (["--resume", "--folder", "none"], 2, "none holds no chain"),
    ],
)
def test_a_mistake_is_told_before_any_work(
    run: Any, tiny: str, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    ran = chain(run, tiny, *words)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert "load " not in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_story_s_file_where_a_prompt_belongs_is_told(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("shots: [{prompt: a, seconds: 1}]\n")
    ran = chain(run, tiny, "s.yaml")
    assert ran.code == 2
    assert "--storyboard s.yaml" in ran.err


def test_an_unknown_key_of_a_storyboard_is_named(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("shots: [{prompt: a, second: 1}]\n")
    ran = chain(run, tiny, "--storyboard", "s.yaml")
    assert ran.code == 2
    assert "did you mean seconds" in ran.err
    (tmp_path / "s.json").write_text('{"shots": []}')
    ran = chain(run, tiny, "--storyboard", "s.json")
    assert ran.code == 2
    assert "no shots" in ran.err


def test_what_a_model_cannot_is_told_by_a_dry_run(run: Any) -> None:
    words = ["--size", "832x480", "--seconds", 10, "--dry-run", "--device", "nvidia-h200"]
    ran = run("chain", "x", "--model", "wan2.1-t2v-1.3b", *words)
    assert ran.code == 2
    assert "a first frame" in ran.err
    ran = run("chain", "x", "--model", "wan2.2-i2v-a14b", *words)
    assert ran.code == 2
    assert "give the shot an image" in ran.err


def test_a_folder_in_use_is_busy(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "a.chain").mkdir()
    with (tmp_path / "a.chain" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = chain(run, tiny, "x", "--seconds", 2, "--out", "a.mp4")
    assert ran.code == 75
    assert "a.chain" in ran.err
    assert "load " not in ran.err


@pytest.mark.slow
def test_toyworld_makes_a_chain_of_two_clips(run: Any, one_thread: None) -> None:
    flags = ["--size", "96x96", "--frames", 5, "--steps", 2, "--seed", 1, "--seconds", 9 / 16]
    ran = run("chain", PROMPT, *flags, "--out", "a.mp4", "--json", "--report", "a.html")
    assert ran.code == 0, ran.out
    assert frames_of("a.mp4").shape == (9, 96, 96, 3)
    with av.open("a.mp4") as container:
        assert container.streams.video[0].average_rate == Fraction(16)
    assert "<html" in Path("a.html").read_text("utf-8")


@pytest.mark.slow
def test_a_refusal_claims_no_video_and_a_dry_run_refuses_what_the_run_would(
    run: Any, tiny: str
) -> None:
    for words in (("--out", "x.txt"), ("--out", "x.mp4", "--format", "webm")):
        ran = chain(run, tiny, "--shot", "1s: a", *words, "--dry-run")
        assert (ran.code, "does not end in" in ran.err) == (2, True), ran.err
    made = chain(run, tiny, "--shot", "1s: a", "--out", "a.mp4")
    assert made.code == 0, made.err
    ran = run("chain", "--resume", "--folder", "a.chain", "--out", "never.mp4", "--from-clip", 99)
    assert ran.code == 2
    assert "from_clip=99 is not a clip of this chain" in ran.err
    assert "never.mp4" not in ran.err.split("`")[0]


def test_a_plan_shows_which_clips_follow_another(run: Any, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "shots:\n- {prompt: a, seconds: 2}\n- {prompt: b, seconds: 1, transition: cut}\n"
    )
    flags = (f"--model={tiny}", "--size=32x32", "--steps=2", "--seed=7", "--frames=17")
    shown = run("chain", "--storyboard", "s.yaml", *flags, "--dry-run").out
    rows = [line.split() for line in shown.splitlines()[1:4]]
    assert [row[3] for row in rows] == ["-", "last_frame", "-"]
