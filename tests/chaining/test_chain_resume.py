"""A chain that is stopped anywhere goes on to the same bits and makes no finished clip again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.chain import Chain
from chaining.events import TakenUp
from chaining.files import Busy, locked
from chaining.maker import ENVIRONMENT
from chaining.manifest import NAME
from chaining.story import Story, parse_story
from tests.chaining.drifty import SIDE, DriftyMaker, Maker
from vidgen.errors import BadMedia, BadRequest, Cancelled
from vidgen.events import CancelToken
from vidgen.media import read_recipe, read_video

ROOT = Path(__file__).resolve().parents[2]


class Killed(BaseException):
    """Nothing in the product catches it."""


def story(seconds: float = 1.55, **fields: Any) -> Story:
    shots = fields.pop("shots", [{"prompt": "a", "seconds": seconds}])
    return parse_story({"shots": shots, "seed": 1, "request": {"format": "master"}, **fields})


def drifting() -> DriftyMaker:
    return DriftyMaker(gain=0.97, noise=0.004)


def chain(folder: Path, maker: Maker, made: Story | None = None, measure: bool = False) -> Chain:
    return Chain(made or story(), maker, folder / "chain", measure=measure)


def content(path: Path) -> tuple[str | None, bytes]:
    """Recipe and pixels of a video; a Matroska file itself carries a random number."""
    return read_recipe(path), np.concatenate(list(read_video(path))).tobytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The video of a chain that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole")
    chain(folder, drifting()).run(folder / "video.mkv")
    return folder / "video.mkv"


def ends_at(number: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that everything ends when it is called for the n-th time."""
    calls = 0

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == number:
            raise Killed
        return real(*args, **kwargs)

    return wrapped


def stopping(folder: Path, maker: Maker, **changes: Any) -> Chain:
    """A chain of five clips with two trials each, which the meter ends after the second clip."""
    controls = {"colour_lock": "off", "best_of_seams": 2, "drift_stop": True, **changes}
    return chain(folder, maker, story(2.5, controls=controls), measure=True)


def darkening(fail_at: int = -1) -> DriftyMaker:
    return DriftyMaker(gain=0.8, noise=0.004, fail_at=fail_at)


Kind = tuple[Callable[..., Chain], Callable[[], Maker]]
KINDS: dict[str, Kind] = {"plain": (chain, drifting), "measured": (stopping, darkening)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Each file takes its name by os.replace; the run ends before the n-th one, for every n."""
    made, maker = KINDS[kind]
    whole = maker()
    result = made(tmp_path, whole).run(tmp_path / "video.mkv")
    expected = content(tmp_path / "video.mkv")
    number = 0
    finished = False
    while not finished:
        number += 1
        folder = tmp_path / str(number)
        second = maker()
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", ends_at(number, os.replace))
            try:
                made(folder, maker()).run(folder / "video.mkv")
                finished = True
            except Killed:
                pass
        held = (folder / "chain" / NAME).is_file()
        published = len(list((folder / "chain" / "takes").glob("???-?")))
        again = made(folder, second).run(folder / "video.mkv", resume=held)
        assert content(folder / "video.mkv") == expected, f"write {number}"
        assert second.calls == whole.calls - published, f"write {number}"
        assert again.state == result.state
        assert len(list((folder / "chain" / "takes").iterdir())) == whole.calls
    assert number > 3 * len(result.takes)


CHILD = """
import os, signal, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.chaining.test_chain_resume import KINDS
count = 0
real = os.fsync
def fsync(handle):
    global count
    count += 1
    if count == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(handle)
os.fsync = fsync
made, maker = KINDS[{kind!r}]
made(Path({folder!r}), maker()).run(Path({folder!r}, "video.mkv"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "number", "takes"), [("plain", 23, 2), ("measured", 32, 3)])
def test_a_real_kill(tmp_path: Path, kind: str, number: int, takes: int) -> None:
    """While a third take is written; and while a manifest is, before the clip that ends a chain is
    measured.
    """
    made, maker = KINDS[kind]
    code = CHILD.format(root=str(ROOT), folder=str(tmp_path), number=number, kind=kind)
    child = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert child.returncode == -signal.SIGKILL
    folder = tmp_path / "chain" / "takes"
    assert len(list(folder.glob("???-?"))) == takes
    assert not (folder / f"{takes - 1:03d}-0" / "features.npz").exists()
    assert list(folder.parent.rglob("*.part")), "the kill came while something was written"
    (tmp_path / "chain" / "manifest.json.00000000.part").write_text("{")
    again, whole = maker(), maker()
    made(tmp_path, again).run(tmp_path / "video.mkv", resume=True)
    made(tmp_path / "whole", whole).run(tmp_path / "whole.mkv")
    assert again.calls == whole.calls - takes
    assert content(tmp_path / "video.mkv") == content(tmp_path / "whole.mkv")
    assert not list((tmp_path / "chain").rglob("*.part"))


def test_a_chain_that_stopped_by_itself_stays_stopped_until_told_otherwise(tmp_path: Path) -> None:
    stopped = stopping(tmp_path, darkening()).run()
    assert (stopped.state, len(stopped.takes)) == ("stopped", 2)
    again = darkening()
    result = stopping(tmp_path, again).run(resume=True)
    assert (again.calls, result.state, len(result.takes)) == (0, "stopped", 2)
    onwards = darkening()
    result = stopping(tmp_path, onwards, drift_stop=False, max_chain=9).run(resume=True)
    assert (result.state, len(result.takes)) == ("finished", 5)
    assert onwards.calls == 6


def test_a_discarded_clip_is_not_what_stops_a_chain(tmp_path: Path) -> None:
    made = stopping(tmp_path, darkening())
    with made.opened() as run:
        for plan in made.schedule.clips[:2]:
            run.make(plan)
        assert run.stopped
        run.discard(1)
        assert not run.stopped


@pytest.mark.parametrize("how", ["cancel", "failure"])
def test_what_is_finished_is_assembled_when_a_run_ends_early(
    tmp_path: Path, whole: Path, how: str
) -> None:
    maker = drifting()
    if how == "cancel":
        maker.stop_at = 2
        with pytest.raises(Cancelled):
            chain(tmp_path, maker).run(tmp_path / "video.mkv", cancel=CancelToken())
    else:
        maker.fail_at = 2
        with pytest.raises(RuntimeError, match="the model broke"):
            chain(tmp_path, maker).run(tmp_path / "video.mkv")
    part = np.concatenate(list(read_video(tmp_path / "video.mkv")))
    full = np.concatenate(list(read_video(whole)))
    assert len(part) == 17 < len(full)
    assert (part == full[:17]).all()
    state = json.loads((tmp_path / "chain" / NAME).read_text())["state"]
    assert state == {"cancel": "stopped", "failure": "failed"}[how]
    again = drifting()
    chain(tmp_path, again).run(tmp_path / "video.mkv", resume=True)
    assert content(tmp_path / "video.mkv") == content(whole)
    assert again.calls == len(chain(tmp_path, again).schedule.clips) - 2


def test_cancel_between_clips(tmp_path: Path) -> None:
    cancel = CancelToken()
    maker = drifting()

    def stop(event: Any) -> None:
        if type(event).__name__ == "ClipFinished" and event.clip == 1:
            cancel.cancel()

    with pytest.raises(Cancelled, match="clip 2"):
        chain(tmp_path, maker).run(on=stop, cancel=cancel)
    assert maker.calls == 2


def test_a_finished_chain_makes_nothing_and_can_be_assembled_otherwise(tmp_path: Path) -> None:
    chain(tmp_path, drifting()).run()
    maker = drifting()
    result = chain(tmp_path, maker).run(tmp_path / "again.mkv", resume=True)
    assert maker.calls == 0
    assert result.num_frames == result.schedule.num_frames


@pytest.mark.parametrize("name", ["frames.mkv", "handover.safetensors", "latents.safetensors"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_a_damaged_take_is_found_and_made_anew_only_if_asked(
    tmp_path: Path, whole: Path, name: str, damage: str
) -> None:
    chain(tmp_path, drifting()).run()
    file = tmp_path / "chain" / "takes" / "001-0" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    with pytest.raises(BadMedia, match=f"{name} is missing or not as it was written"):
        chain(tmp_path, drifting()).run(resume=True)
    maker = drifting()
    chain(tmp_path, maker).run(tmp_path / "video.mkv", resume=True, remake=True)
    assert maker.calls == 1
    assert (tmp_path / "chain" / "takes" / "001-1").is_dir()
    if damage == "gone":
        assert content(tmp_path / "video.mkv") == content(whole)


@pytest.mark.parametrize("text", ["{}", "{", None])
def test_a_damaged_record_of_a_take_names_the_way_out_that_helps(
    tmp_path: Path, text: str | None
) -> None:
    chain(tmp_path, drifting()).run()
    record = tmp_path / "chain" / "takes" / "001-0" / "take.json"
    record.unlink()
    if text is not None:
        record.write_text(text)
    with pytest.raises(BadMedia, match=r"take\.json.*\(remake\)"):
        chain(tmp_path, drifting()).run(resume=True)
    maker = drifting()
    chain(tmp_path, maker).run(resume=True, remake=True)
    assert maker.calls == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"vidgen_chain": 99}', '{"vidgen_chain": 1}'])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "chain").mkdir()
    (tmp_path / "chain" / NAME).write_text(text)
    with pytest.raises(BadMedia, match=r"manifest\.json"):
        chain(tmp_path, drifting()).run(resume=True)


def test_a_story_that_is_laid_out_otherwise_now_is_told(tmp_path: Path) -> None:
    """As after an upgrade: later takes continue the clip as it was laid out before."""
    chain(tmp_path, drifting()).run()
    path = tmp_path / "chain" / NAME
    data = json.loads(path.read_text())
    data["schedule"]["clips"][1]["window"] = 8
    path.write_text(json.dumps(data))
    with pytest.raises(BadRequest, match=r"clip 1 window: 8 -> 1; .*branch \(from_clip\)"):
        chain(tmp_path, drifting()).run(resume=True)


def test_a_file_that_cannot_be_written_is_told_before_anything_is_made(tmp_path: Path) -> None:
    maker = drifting()
    with pytest.raises(BadRequest, match=r"\.mkv"):
        chain(tmp_path, maker).run(tmp_path / "video.mp4")
    assert maker.calls == 0


def test_another_story_or_model_is_refused_with_what_changed(tmp_path: Path) -> None:
    chain(tmp_path, drifting()).run()
    changes = {
        "strategy: 'last_frame' -> 'overlap'": story(strategy="overlap", handover={"overlap": 5}),
        r"seed: 1 -> 2": story().model_copy(update={"seed": 2}),
        r"controls\.colour_lock: 'pair_affine' -> 'off'": story(controls={"colour_lock": "off"}),
    }
    for words, other in changes.items():
        with pytest.raises(BadRequest, match=words):
            chain(tmp_path, drifting(), other).run(resume=True)
    longer = DriftyMaker(clip_frames=13)
    with pytest.raises(BadRequest, match="num_frames: 9 -> 13"):
        chain(tmp_path, longer).run(resume=True)
    with pytest.raises(BadRequest, match="holds a chain already"):
        chain(tmp_path, drifting()).run()


def test_a_picture_that_changed_under_its_name_is_told(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"one")
    made = story(shots=[{"prompt": "a", "seconds": 1, "image": str(picture)}])
    chain(tmp_path, drifting(), made).run()
    picture.write_bytes(b"two")
    with pytest.raises(BadRequest, match=r"the content of .*a\.png"):
        chain(tmp_path, drifting(), made).run(resume=True)


def test_a_drawn_seed_stays(tmp_path: Path) -> None:
    made = story().model_copy(update={"seed": None})
    first = chain(tmp_path, drifting(), made)
    first.run(tmp_path / "one.mkv")
    second = chain(tmp_path, drifting(), made)
    assert second.schedule.seed == first.schedule.seed
    second.run(tmp_path / "two.mkv", resume=True)
    assert content(tmp_path / "one.mkv") == content(tmp_path / "two.mkv")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """flock belongs to the open file, so two of one process exclude each other as two do."""
    made = chain(tmp_path, drifting())
    with locked(tmp_path / "chain"), pytest.raises(Busy, match="Another process"):
        made.run()
    made.run()


def test_measurements_are_taken_up_again(tmp_path: Path) -> None:
    """A resumed chain reports what an uninterrupted one does, from kept and from lost features."""
    made = story(4.0)

    def run(folder: Path, maker: Maker, **fields: Any) -> dict[str, Any]:
        result = chain(folder, maker, made, measure=True).run(**fields)
        assert result.drift is not None
        return result.drift.as_dict()

    def maker(fail_at: int = -1) -> DriftyMaker:
        return DriftyMaker(clip_frames=17, gain=0.97, fail_at=fail_at)

    expected = run(tmp_path / "whole", maker())
    assert expected["source"]["kind"] == "png"  # takes are lossless files
    with pytest.raises(RuntimeError):
        run(tmp_path / "part", maker(fail_at=3))
    lost = tmp_path / "part" / "chain" / "takes" / "001-0" / "features.npz"
    assert lost.is_file()
    lost.write_bytes(b"damaged")
    again = maker()
    assert run(tmp_path / "part", again, resume=True) == expected
    assert again.calls == 1
    assert json.loads((tmp_path / "part" / "chain" / "drift.json").read_text()) == expected


def test_another_environment_is_told_and_not_refused(tmp_path: Path) -> None:
    """Bits can differ with it; where nothing is left to make, or it is not known, nothing does."""

    class Somewhere(DriftyMaker):
        torch: str | None = "2.9.0"

        @property
        def identity(self) -> dict[str, Any]:
            where = {} if self.torch is None else {ENVIRONMENT: {"torch": self.torch, "os": "a"}}
            return {**super().identity, **where}

    def run(torch: str | None, **how: Any) -> tuple[list[str], list[Any]]:
        maker = Somewhere(**how.pop("maker", {}))
        maker.torch = torch
        heard: list[Any] = []
        result = chain(tmp_path, maker).run(on=heard.append, resume=True, **how)
        told = [item.text for item in result.advice if item.code == "environment"]
        return told, [event for event in heard if isinstance(event, TakenUp)]

    with pytest.raises(RuntimeError):
        chain(tmp_path, Somewhere(fail_at=1)).run()
    with pytest.raises(RuntimeError):
        run("2.9.0", maker={"fail_at": 1})
    told, heard = run("2.10.1", from_clip=2)
    assert len(told) == len(heard) == 1
    assert "(torch: '2.9.0' -> '2.10.1')" in told[0]
    assert [item.text for item in heard[0].advice] == told
    assert run("2.9.0") == ([], [])
    assert run(None, from_clip=2) == ([], [])
    assert run("2.9.0", from_clip=2) == ([], [])


def test_sharpest_frames_resume_to_the_same_bits(tmp_path: Path) -> None:
    made = story(2.5, handover={"pick": "sharpest"})
    maker = DriftyMaker(clip_frames=21, noise=0.01)
    result = chain(tmp_path / "one", maker, made).run(tmp_path / "one.mkv")
    assert result.num_frames == result.schedule.num_frames
    assert any(take.ends < take.plan.stop - take.first for take in result.takes[:-1])
    with pytest.raises(RuntimeError):
        chain(tmp_path / "two", DriftyMaker(clip_frames=21, noise=0.01, fail_at=2), made).run()
    again = DriftyMaker(clip_frames=21, noise=0.01)
    chain(tmp_path / "two", again, made).run(tmp_path / "two.mkv", resume=True)
    assert content(tmp_path / "one.mkv") == content(tmp_path / "two.mkv")
    assert again.size == (SIDE, SIDE)
