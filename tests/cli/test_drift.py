"""`vidgen drift`: verdicts and exit codes from injected drift, files, and what it refuses."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from cyclopts import App

from chaining.cli.drift import drift
from chaining.cli.drift_options import Watch, exit_code
from chaining.drift.bases import Synthetic
from tests.cli.conftest import Ran
from vidgen.cli.options import Common
from vidgen.cli.report import Reporter
from vidgen.errors import Cancelled, VidgenError
from vidgen.events import CancelToken
from vidgen.media import VideoWriter, probe_video

Ask = Callable[..., Ran]
_CLIP = 24


@pytest.fixture
def ask(capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Run a drift command in this process, in a fresh folder."""
    monkeypatch.chdir(tmp_path)
    app = App(name="vidgen", help_format="plaintext")
    app.command(drift)

    def call(*words: object) -> Ran:
        capfd.readouterr()
        told = ""
        try:
            code = app(
                ["drift", *(str(word) for word in words)],
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
        except VidgenError as error:
            code, told = error.exit_code, error.message
        out, err = capfd.readouterr()
        return Ran(code or 0, out, err + told)

    return call


def _write(path: Path, frames: np.ndarray) -> Path:
    with VideoWriter(
        path, width=frames.shape[2], height=frames.shape[1], fps=Fraction(16), profile="master"
    ) as writer:
        writer.write(frames.astype(np.float32))
    return path


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lossless video whose clips of 24 frames all show the same."""
    frames = Synthetic(0, 96, 54, _CLIP).frames(0, 4 * _CLIP)
    return _write(tmp_path_factory.mktemp("drift") / "clean.mkv", frames)


def test_injected_drift_is_measured_and_fails(ask: Ask, clean: Path, tmp_path: Path) -> None:
    made = ask("inject", clean, "--spec", "gain=0.97", "--clip-frames", _CLIP, "--out", "dark.mkv")
    assert made.code == 0
    assert probe_video(tmp_path / "dark.mkv").num_frames == 96
    ran = ask("measure", "dark.mkv", "--json")
    assert ran.code == 11
    told = ran.last
    assert told["clips_found"] == "recipe"
    assert told["drift"]["verdict"]["by_group"]["tone"] == "fail"
    gain = told["drift"]["segments"][0]["slopes"]["gain"]["value"]
    assert np.exp(gain) == pytest.approx(0.97, abs=5e-4)
    steps = [line for line in ran.lines if line["event"] == "progress"]
    assert steps[-1]["done"] == steps[-1]["total"] == 96
    assert all("eta" in line for line in steps)


def test_a_warning_counts_when_asked(ask: Ask, clean: Path) -> None:
    # ln 0.9925 = -0.0075 lies between what is good (0.005) and what is bad (0.010).
    ask("inject", clean, "--spec", "gain=0.9925", "--clip-frames", _CLIP, "--out", "dusk.mkv")
    ran = ask("measure", "dusk.mkv", "--json")
    assert ran.last["drift"]["verdict"]["by_group"]["tone"] == "warn"
    assert ran.code == 0
    assert ask("measure", "dusk.mkv", "--strict").code == 10


def test_people_read_the_verdict_first(ask: Ask, clean: Path) -> None:
    ask("inject", clean, "--spec", "gain=0.97", "--clip-frames", _CLIP, "--out", "dark.mkv")
    ran = ask("measure", "dark.mkv")
    lines = ran.out.splitlines()
    assert lines[0].startswith("✗ fail  dark.mkv")
    assert "gets darker by 3.0" in lines[1]
    assert lines[2].strip().startswith("Black after about")
    assert "\x1b" not in ran.out  # no colours where no terminal is
    assert ask("measure", "dark.mkv", "--quiet").out == ""


def test_reports_are_written(ask: Ask, clean: Path, tmp_path: Path) -> None:
    words = ("measure", clean, "--clip-frames", 48, "--quick")
    ran = ask(*words, "--html", "r.html", "--png", "plots", "--json")
    assert ran.code == 12  # two clips have no slope
    assert len(ran.last["files"]) == 6
    assert all((tmp_path / file).is_file() for file in ran.last["files"])
    assert "clean.mkv" in (tmp_path / "r.html").read_text()


def test_two_runs_are_compared(ask: Ask, clean: Path) -> None:
    ask("inject", clean, "--spec", "blur=0.3", "--clip-frames", _CLIP, "--out", "soft.mkv")
    ran = ask("compare", clean, "soft.mkv", "--clip-frames", _CLIP, "--json")
    assert ran.code == 11
    slopes = ran.last["comparison"]["slopes"]
    assert slopes["blur"]["value"] == pytest.approx(0.09, rel=0.05)
    same = ask("compare", clean, clean, "--clip-frames", _CLIP)
    assert same.code == 0
    assert "They drift alike." in same.out
    uneven = ask("compare", clean, clean, "--clip-frames", 97)
    assert uneven.code == 2


def test_the_codecs_share_is_told(ask: Ask, clean: Path) -> None:
    ran = ask("measure", clean, "--clip-frames", _CLIP, "--codec-baseline", "--json")
    share = ran.last["codec_share"]
    assert share["of"] == "mp4"
    assert abs(share["per_clip"]["gain"]["codec"]) < 0.005
    assert share["level"]["noise"] != 0  # a lossy codec cannot keep sensor noise as it is
    beside = ask("measure", clean, "--clip-frames", _CLIP, "--master", clean, "--json")
    found = beside.last["codec_share"]
    assert found["of"] == "clean.mkv"
    parts = [part["codec"] for part in found["per_clip"].values()]
    assert parts == pytest.approx([0] * len(parts), abs=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_flat_footage_is_judged_without_nan(ask: Ask, tmp_path: Path, value: float) -> None:
    flat = _write(tmp_path / "flat.mkv", np.full((48, 54, 96, 3), value))
    ran = ask("measure", flat, "--clip-frames", 12, "--json")
    assert ran.code in (11, 12)  # it stands still
    assert "NaN" not in ran.out
    assert "Infinity" not in ran.out


def test_one_frame_and_one_piece_are_inconclusive(ask: Ask, clean: Path, tmp_path: Path) -> None:
    one = _write(tmp_path / "one.mkv", np.full((1, 54, 96, 3), 0.5))
    ran = ask("measure", one, "--json")
    assert ran.code == 12
    json.loads(ran.out.splitlines()[-1], parse_constant=pytest.fail)
    whole = ask("measure", clean, "--json")
    assert whole.code == 12
    assert whole.last["clips_found"] == "whole"
    assert "--clip-frames" in whole.last["notes"][0]
    assert whole.last["drift"]["contrasts"]["luma"]["rating"] >= 9


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("measure", "none.mkv"), 4, "none.mkv"),
        (("measure", "empty.mkv"), 2, "empty"),
        (("measure", "text.mkv"), 2, "not a video"),
        (("measure", "VIDEO", "--clip-frames", "500"), 2, "has 96"),
        (("measure", "VIDEO", "--clip-frames", "5.5"), 2, "whole number"),
        (("measure", "VIDEO", "--clip-frames", "-3"), 2, "--clip-frames -3"),
        (("measure", "VIDEO", "--html", "r.mkv"), 2, "ends in .html"),
        (("measure", "VIDEO", "--png", "text.mkv"), 2, "is a file"),
        (("measure", "VIDEO", "--codec-baseline", "--master", "VIDEO"), 2, "give one"),
        (("inject", "VIDEO", "--spec", "gian=0.9", "--out", "o.mkv"), 2, "did you mean gain"),
        (("inject", "VIDEO", "--spec", "gain=0.9", "--out", "o.gif"), 2, "no known ending"),
        (("inject", "VIDEO", "--spec", "gain=0.9", "--out", "o.mkv"), 2, "single clip"),
        (("inject", "VIDEO", "--spec", "gain=0.9", "--out", "VIDEO"), 2, "the video itself"),
        (("selftest", "--only", "nothing"), 2, "none of the cases"),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(
    ask: Ask, clean: Path, tmp_path: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    (tmp_path / "empty.mkv").touch()
    (tmp_path / "text.mkv").write_text("no video")
    ran = ask(*(clean if word == "VIDEO" else word for word in words))
    assert ran.code == code
    assert told in ran.err
    assert not (tmp_path / "o.mkv").exists()


def test_a_stop_ends_between_chunks() -> None:
    cancel = CancelToken()
    watch = Watch(Reporter(Common(quiet=True)), cancel, 100)
    watch(16)
    cancel.cancel()
    with pytest.raises(Cancelled, match="after 32 of 100 frames") as raised:
        watch(32)
    assert raised.value.exit_code == 130


def test_exit_codes_are_those_of_the_design() -> None:
    codes = [exit_code(word, strict=False) for word in ("pass", "warn", "fail", "inconclusive")]
    assert codes == [0, 0, 11, 12]
    assert exit_code("warn", strict=True) == 10


@pytest.mark.slow
def test_the_meter_tests_itself(ask: Ask) -> None:
    ran = ask("selftest", "--only", "offset", "--json")
    assert ran.code == 0
    assert ran.last["ok"]
    (check,) = ran.last["checks"]
    assert check["reading"] == pytest.approx(-0.01, abs=5e-4)
