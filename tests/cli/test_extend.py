"""`vidgen extend`: one file of the old part and the new one, at the old one's size and rate."""

import errno
import fcntl
import json
import os
import shlex
import signal
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from chaining.files import locked
from tests.chaining.test_extend import NTSC, RATE, click, heard, levels, numbered
from tests.chaining.test_extend import clip as written
from tests.cli.conftest import PROMPT, Ran
from tests.media.pictures import ffmpeg
from vidgen.cli.report import Reporter
from vidgen.errors import DoesNotFit
from vidgen.events import Progress
from vidgen.media import read_recipe

SHOWN = Reporter.progress


@pytest.fixture(autouse=True)
def _no_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


def frames_of(path: Path | str) -> Any:
    with av.open(str(path)) as container:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def extend(run: Any, tiny: str, *words: Any) -> Ran:
    flags = [f"--model={tiny}", "--steps=2", "--seed=7", "--frames=17", "--size=32x32"]
    ran: Ran = run("extend", *words, *flags)
    return ran


@pytest.fixture
def phone(tmp_path: Path) -> Path:
    """24 frames of 61x45 as a phone stores them: on their side, with a tag, and with a click."""
    source = written(tmp_path / "1.mkv", numbered(24, (45, 61)))
    track = click(tmp_path / "1.wav", 20020, 1.001)
    path = tmp_path / "2.mp4"
    ffmpeg("-i", source, "-i", track, "-c:v", "libx264", "-crf", "1", "-pix_fmt", "yuv444p",
           "-colorspace", "bt709", "-color_range", "tv", "-c:a", "flac", "-strict", "-2",
           path)  # fmt: skip
    turned = tmp_path / "phone.mp4"
    ffmpeg("-display_rotation", "90", "-i", path, "-c", "copy", turned)
    return turned


def test_one_file_of_old_and_new(run: Any, tiny: str, phone: Path) -> None:
    """20 frames stay (0 to 19), half a second is 12 frames, and frame 10 has the click."""
    words = (phone, "-p", PROMPT, "--seconds", 0.5, "--from-frame", 19, "--out", "a.mkv")
    ran = extend(run, tiny, *words, "--json")
    assert ran.code == 0, ran.out
    plan = ran.lines[0]
    asked = {item["field"]: (item["asked"], item["used"]) for item in plan["adjustments"]}
    assert asked["rotation"][1] == 0
    assert asked["size"] == ("61x45", "32x32")
    assert asked["fps"] == ("16", "24000/1001")
    assert asked["num_frames"] == (24, 20)
    assert plan["num_frames"] == 32
    told = next(line for line in ran.lines if line["event"] == "sound")
    assert "silence from 0.834 s on" in told["text"]  # 20 * 1001 / 24000
    assert (ran.last["num_frames"], ran.last["kept"]) == (32, 20)
    with av.open("a.mkv") as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (61, 45)
        assert stream.average_rate == NTSC
    frames = frames_of("a.mkv")
    assert len(frames) == 32
    want = 0.2 + 0.02 * np.arange(20)
    assert np.abs(levels(frames[:20]) / 255 - want).max() < 0.01
    sound = heard(Path("a.mkv"))
    loud = np.flatnonzero(np.abs(sound) > 0.1)
    assert (loud[0], loud[-1], len(sound)) == (20020, 20039, round(32 / NTSC * RATE))
    recipe = json.loads(read_recipe("a.mkv") or "{}")
    assert recipe["extends"]["from_frame"] == 19
    assert recipe["chain"]["clips"][-1]["stop"] == 32


def test_an_odd_size_becomes_webm_where_no_format_is_asked(
    run: Any, tiny: str, phone: Path
) -> None:
    words = ("-p", PROMPT, "--seconds", 0.5, "--from", "0.5s", "--strategy", "overlap",
             "--handover-overlap", 5)  # fmt: skip
    ran = extend(run, tiny, phone, *words)
    assert ran.code == 0, ran.err
    assert "format: mp4 -> webm" in ran.err
    assert "clip 1/1  12 frames, 0.50 s" in ran.err
    assert "phone.mp4: 12 frames stay, 12 follow; 24 frames at 24000/1001 fps" in ran.err
    path = phone.with_name("phone-extended.webm")
    assert ran.out.startswith(f"{path}  61x45, 24 frames at 24000/1001 fps, 1.001 s")
    assert frames_of(path).shape == (24, 45, 61, 3)
    dry = extend(run, tiny, phone, *words, "--dry-run")
    assert "phone-extended-2.webm" not in dry.err
    assert "phone.mp4: 12 frames stay, 12 follow" in dry.out
    assert sorted(p.name for p in phone.parent.glob("phone-extended-2*")) == []
    refused = extend(run, tiny, phone, *words, "--out", "a.mp4")
    assert refused.code == 2
    assert "61x45 is odd" in refused.err


def test_our_own_clip_goes_on_at_its_own_size(run: Any, tiny: str) -> None:
    flags = [f"--model={tiny}", "--steps=2", "--seed=7", "--size=48x32", "--frames=9"]
    assert run("generate", PROMPT, *flags, "--out", "a.mp4").code == 0
    words = ["-p", PROMPT, "--seconds", 0.5, "--out", "b.mp4", "--json"]
    ran = run("extend", "a.mp4", *words, f"--model={tiny}", "--steps=2", "--frames=9")
    assert ran.code == 0, ran.out
    fields = {item["field"] for item in ran.lines[0]["adjustments"]}
    assert "size" not in fields
    assert "fps" not in fields
    frames, before = frames_of("b.mp4"), frames_of("a.mp4")
    assert frames.shape == (17, 32, 48, 3)
    assert np.abs(frames[:9].astype(int) - before).mean() < 3


def test_ctrl_c_and_the_printed_command(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    words = (source, "-p", PROMPT, "--seconds", 2, "--out")
    assert extend(run, tiny, *words, "whole.mkv").code == 0

    def progress(self: Reporter, event: Progress, number: int, clips: int) -> None:
        SHOWN(self, event, number, clips)
        if (number, event.stage, event.done) == (clips, "denoise", 1):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Reporter, "progress", progress)
    ran = extend(run, tiny, *words, "a.mkv")
    monkeypatch.setattr(Reporter, "progress", SHOWN)
    assert ran.code == 130
    assert "1 of 2 clips are finished, the first 1 of the video are in a.mkv" in ran.err
    assert len(frames_of("a.mkv")) == 24 + 16
    command = shlex.split(ran.err.split("`")[1])
    ran = run(*command[1:])
    assert ran.code == 0, ran.err
    assert len(frames_of("whole.mkv")) == 24 + 32
    assert (frames_of("a.mkv") == frames_of("whole.mkv")).all()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["absent.mp4", "-p", "x", "--seconds", 1], 4, "absent.mp4"),
        (["s.mkv"], 2, "The story is empty"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--from-frame", 24], 2, "its frames are 0 to 23"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--from", "9s"], 2, "which lasts 1.500 s"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--from", "end"], 2, "write e.g. 3.2s"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--fps", 24], 2, "--fps does not go with extend"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--fit", "crop"], 2, "nothing is cut off"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--strategy", "single"], 2, "cannot continue"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--strategy", "last_latent"], 2, "video has none"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--resume"], 2, "give its --out"),
        (["s.mkv", "-p", "x", "--seconds", 0.9, "--strict"], 2, "strict allows no adjustment"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--end-image", "no.png"], 4, "no.png"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--out", "s.mkv"], 2, "is the video itself"),
        (["s.mkv", "-p", "x", "--seconds", 1, "--branch"], 2, "s.mkv is no file of a chain"),
    ],
)
def test_a_mistake_is_told_before_any_work(
    run: Any, tiny: str, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    ran = extend(run, tiny, *words)
    assert ran.code == code, ran.err
    assert said in ran.err
    assert "load " not in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s.mkv"]


def test_a_folder_in_use_is_busy(run: Any, tiny: str, tmp_path: Path) -> None:
    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    (tmp_path / "a.chain").mkdir()
    with (tmp_path / "a.chain" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = extend(run, tiny, "s.mkv", "-p", "x", "--seconds", 1, "--out", "a.mp4")
    assert ran.code == 75


def test_a_run_that_never_had_the_folder_leaves_the_file_alone(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused as another chain, or too late for the lock: another run made what is there."""
    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    words = ("s.mkv", "-p", PROMPT, "--seconds", 1, "--out", "a.mkv")
    assert extend(run, tiny, *words).code == 0
    made = Path("a.mkv").read_bytes()
    ran = extend(run, tiny, *words, "--resume", "--guidance-scale", 2)
    assert ran.code == 2
    assert "The chain began otherwise" in ran.err
    assert Path("a.mkv").read_bytes() == made

    def late(work: Any, **_: Any) -> None:
        handles.append((work.folder / "lock").open("w"))
        fcntl.flock(handles[0], fcntl.LOCK_EX)

    handles: list[Any] = []
    monkeypatch.setattr("chaining.cli.extend.check_start", late)
    ran = extend(run, tiny, *words, "--resume")
    handles[0].close()
    assert ran.code == 75
    assert Path("a.mkv").read_bytes() == made


@pytest.mark.parametrize(("holds", "code"), [(True, 75), (False, 4)])
def test_a_folder_that_another_run_has_just_begun_stays(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: bool, code: int
) -> None:
    """It comes between a look at the folder and its lock, and still works there or not."""
    handles: list[Any] = []

    def beaten(folder: Path) -> Any:
        folder.mkdir()
        (folder / "start.png").write_bytes(b"of the other run")
        handles.append((folder / "lock").open("w"))
        if holds:
            fcntl.flock(handles[0], fcntl.LOCK_EX)
        return locked(folder)

    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    monkeypatch.setattr("chaining.cli.extension.locked", beaten)
    words = ("-p", PROMPT, "--seconds", 1, "--out", "a.mkv", "--end-image", "no.png")
    ran = extend(run, tiny, "s.mkv", *words)
    handles[0].close()
    assert ran.code == code, ran.err
    assert Path("a.chain/start.png").read_bytes() == b"of the other run"


def test_why_nothing_could_be_begun_is_told(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise DoesNotFit("The disk is full.")

    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    monkeypatch.setattr("chaining.chain_run.Manifest.save", full)
    ran = extend(run, tiny, "s.mkv", "-p", PROMPT, "--seconds", 1, "--out", "a.mkv")
    assert "The disk is full." in ran.err
    assert "holds no chain" not in ran.err


def test_a_file_that_cannot_be_written_does_not_hide_why_a_run_ended(
    run: Any, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def progress(self: Reporter, event: Progress, number: int, clips: int) -> None:
        SHOWN(self, event, number, clips)
        if (number, event.stage, event.done) == (clips, "denoise", 1):
            os.kill(os.getpid(), signal.SIGINT)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    written(tmp_path / "s.mkv", numbered(24, (32, 32)), fps=Fraction(16))
    monkeypatch.setattr(Reporter, "progress", progress)
    monkeypatch.setattr("chaining.cli.extend.write_extended", full)
    ran = extend(run, tiny, "s.mkv", "-p", PROMPT, "--seconds", 2, "--out", "a.mkv")
    assert ran.code == 130, ran.err
    assert "1 of 2 clips are finished; go on with" in ran.err
    assert "could not be assembled: [Errno 28] No space left" in ran.err


def test_a_chain_goes_on_in_float_as_if_made_at_once(run: Any, tiny: str) -> None:
    """The file of two shots in two commands is that of one chain of both, bit for bit."""
    flags = [f"--model={tiny}", "--size=32x32", "--steps=2", "--seed=7", "--frames=17"]
    shots = ["--shot", f"2s: {PROMPT}", "--shot", "1s: more of it"]
    assert run("chain", *shots, *flags, "--out", "whole.mkv").code == 0
    assert run("chain", *shots[:2], *flags, "--out", "a.mkv").code == 0
    before = frames_of("a.mkv")
    no = run("extend", "a.mkv", *shots[2:], "--from-frame", 16, "--branch", "--out", "b.mkv")
    assert no.code == 2
    assert "Frame 16 ends no shot of a.mkv; its shots end with frame 32." in no.err
    dry = run("extend", "a.mkv", *shots[2:], "--out", "b.mkv", "--dry-run", "--json").last
    assert (dry.get("from_clip"), dry.get("num_frames")) == (2, 49), dry
    ran = run("extend", "a.mkv", *shots[2:], "--branch", "--out", "b.mkv", "--json")
    assert ran.code == 0, ran.out
    assert ran.last["takes"] == ["000-0", "001-0", "002-0"]
    assert ran.last["folder"].endswith("a.chain")
    frames = frames_of("b.mkv")
    assert frames.shape == (49, 32, 32, 3)
    assert (frames[:33] == before).all()
    assert (frames == frames_of("whole.mkv")).all()
    words = ["--strategy", "overlap", "--handover-overlap", 5]
    ran = run("extend", "a.mkv", *shots[2:], *words, "--out", "c.mkv", "--json")
    assert ran.code == 0, ran.out
    # Clip 1 again, for five of its frames; then 17 frames are 12 new ones, so 16 take two clips.
    assert ran.last["takes"] == ["000-0", "001-1", "002-1", "003-0"]
    frames = frames_of("c.mkv")
    assert len(frames) == 49
    no = run(
        "extend", "a.mkv", "more of it", "--seconds", 1, "--guidance-scale", 2, "--out", "d.mkv"
    )
    assert "The chain began otherwise" in no.err
    assert "go on with" not in no.err
    seeds = []
    for seed in ([], ["--seed=3"], ["--seed=4"]):
        dry = run(
            "extend", "a.mkv", "more of it", "--seconds", 1, *seed, "--dry-run", "--json"
        ).last
        seeds.append([clip["seed"] for clip in dry["clips"]][-1])
    assert seeds[1:] == [3, 4]
    assert seeds[0] not in seeds[1:]
    ran = run("extend", "a.mkv", *shots[2:], "--out", "b.mkv", "--resume")
    assert ran.code == 2
    told = "resume with `vidgen chain --resume --folder a.chain --out b.mkv`"
    assert f"a.mkv goes on in a.chain, the folder of its chain; {told}." in ran.err
    assert (frames[:28] == before[:28]).all()  # the five shared frames are mixed
