"""Stories, folders and disks as an adversary or a clumsy user leaves them: one sentence each."""

import errno
import json
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.capabilities import Capability
from chaining.chain import Chain
from chaining.files import locked
from chaining.lengths import Lengths
from chaining.manifest import NAME
from chaining.schedule import make_schedule
from chaining.story import Story, parse_story
from chaining.story_files import MAX_BYTES, read_story
from chaining.takes import FEATURES
from tests.chaining.drifty import DriftyMaker, Maker
from tests.chaining.test_chain_resume import chain, content, drifting, story
from vidgen.errors import BadMedia, BadRequest, Cancelled, DoesNotFit, Unsupported
from vidgen.media import VideoWriter, probe_video, read_video, save_image

Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a story's file and return its path."""

    def written(name: str, text: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return written


def prompts(path: Path) -> list[str]:
    return [shot.prompt for shot in read_story(path).shots]


BOMB = "".join(
    f"  {b}: &{b} [{','.join([f'*{a}'] * 9)}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
GOOD = "shots: [{prompt: a, seconds: 1}]\n"


def test_a_yaml_bomb_is_refused_before_it_goes_off(write: Write) -> None:
    """Written out, its aliases name 9 to the power of 9 values."""
    bomb = GOOD + "request:\n  a: &a [x, x, x, x, x, x, x, x, x]\n" + BOMB
    with pytest.raises(BadMedia, match=r"bomb\.yaml names more than 100000 values"):
        read_story(write("bomb.yaml", bomb))
    with pytest.raises(BadMedia, match="more than 100000 values"):
        read_story(write("circle.yaml", "shots: &a [*a]\n"))
    twice = "shots:\n- &one {prompt: x, seconds: 1}\n- *one\n- {<<: *one, prompt: y}\n"
    assert prompts(write("alias.yaml", twice)) == ["x", "x", "y"]


def test_a_key_that_is_there_twice_is_told(write: Write) -> None:
    """Else the first story would be lost without a word."""
    with pytest.raises(BadMedia, match="in line 2: 'shots' is there twice"):
        read_story(write("two.yaml", GOOD + GOOD))
    shots = '"shots": [{"prompt": "a", "seconds": 1}]'
    with pytest.raises(BadMedia, match="'shots' is there twice"):
        read_story(write("two.json", f"{{{shots}, {shots}}}"))
    with pytest.raises(BadMedia, match="a column twice: prompt, prompt, seconds"):
        read_story(write("two.csv", "prompt,prompt,seconds\na,b,1\n"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt;seconds\na, b;1\n", "a, b"),
        ("prompt\tseconds\na;b\t1\n", "a;b"),
        ('prompt,seconds\n"a\nb",1\n', "a\nb"),
        ("prompt,seconds\na\u2028b,1\n", "a\u2028b"),
        ("prompt , seconds\r a , 1 \r", "a"),
        (b"\xef\xbb\xbfprompt,seconds\r\na,1\r\n\r\n", "a"),
    ],
)
def test_tables_as_programs_write_them(write: Write, text: str | bytes, expected: str) -> None:
    assert prompts(write("shots.csv", text)) == [expected]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("long.csv", "prompt,seconds\n" + "a" * 200_000 + ",1\n"),
        ("open.csv", 'prompt,seconds\n"a,1\n'),
        ("digits.yaml", "seed: " + "9" * 5000),
        ("deep.yaml", "[" * 800),
        ("control.yaml", "shots: \x01"),
        ("huge.yaml", "#" * (MAX_BYTES + 1)),
        ("a\0b.yaml", ""),
    ],
)
def test_unreadable_files_are_one_sentence(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    if "\0" not in name:
        path.write_text(text)
    with pytest.raises(BadMedia) as found:
        read_story(path)
    assert "\n" not in found.value.message


def long_chain(folder: Path, maker: Maker) -> Chain:
    return chain(folder, maker, story(2.1), measure=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A finished chain, and what an uninterrupted run reports of it."""
    folder = tmp_path_factory.mktemp("measured")
    found = long_chain(folder, drifting()).run().drift
    assert found is not None
    return folder, found.as_dict()


@pytest.mark.parametrize("damage", ["never written", "of another take", "flipped"])
def test_features_that_are_lost_or_not_a_takes_own_are_measured_anew(
    tmp_path: Path, measured: tuple[Path, dict[str, Any]], damage: str
) -> None:
    """Also those of the last clip, where a kill came before them and no clip is left to make."""
    folder, expected = measured
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    takes = sorted((tmp_path / "chain" / "takes").iterdir())
    path = takes[-1] / FEATURES
    data = bytearray(path.read_bytes())
    if damage == "never written":
        path.unlink()
    elif damage == "flipped":
        data[len(data) // 3 : len(data) // 3 + 20] = bytes(20)
        path.write_bytes(data)
    else:
        shutil.copy(takes[1] / FEATURES, path)
    maker = drifting()
    found = long_chain(tmp_path, maker).run(resume=True).drift
    assert maker.calls == 0
    assert found is not None
    assert found.as_dict() == expected


def told(*prompts: str, **fields: Any) -> Story:
    """A story in which every prompt is one clip of nine frames."""
    shots = [{"prompt": text, "seconds": 9 / 16, "transition": "cut"} for text in prompts]
    del shots[0]["transition"]
    return story(shots=shots, **fields)


def test_takes_of_a_branch_that_was_left_do_not_come_back(tmp_path: Path) -> None:
    """A shorter branch lies between two longer ones; the clips that it lacks are of the first."""
    chain(tmp_path, drifting(), told("a", "b", "c", "d")).run()
    chain(tmp_path, drifting(), told("a", "x")).run(resume=True, from_clip=1)
    maker = drifting()
    result = chain(tmp_path, maker, told("a", "x", "y", "z")).run(resume=True, from_clip=3)
    assert [take.plan.prompt for take in result.takes] == ["a", "x", "y", "z"]
    assert maker.calls == 2
    assert (tmp_path / "chain" / "takes" / "002-0" / "frames.mkv").is_file()


def test_takes_without_their_manifest_are_not_taken_for_a_new_chains(tmp_path: Path) -> None:
    chain(tmp_path, drifting(), told("a", "b")).run()
    (tmp_path / "chain" / NAME).unlink()
    maker = drifting()
    with pytest.raises(BadRequest, match=r"holds takes but no manifest\.json"):
        chain(tmp_path, maker, told("x", "y")).run()
    assert maker.calls == 0


def test_a_branch_tells_a_picture_that_changed_before_it(tmp_path: Path) -> None:
    pictures = [tmp_path / f"{name}.png" for name in "ab"]
    for picture in pictures:
        picture.write_bytes(b"one")
    shots = [{"prompt": p.stem, "seconds": 9 / 16, "image": str(p)} for p in pictures]
    made = story(shots=shots)
    chain(tmp_path, drifting(), made).run()
    pictures[1].write_bytes(b"two")
    chain(tmp_path, drifting(), made).run(resume=True, from_clip=1)
    pictures[0].write_bytes(b"two")
    with pytest.raises(BadRequest, match=r"the content of .*a\.png"):
        chain(tmp_path, drifting(), made).run(resume=True, from_clip=1)


class Keeping(DriftyMaker):
    """Keeps half a clip and is cancelled; goes on with what it finds, whoever left it."""

    def make(self, ask: Any, on: Any = None, cancel: Any = None) -> Any:
        kept = ask.keep / f"{ask.digest}.safetensors"
        if self.calls == self.stop_at:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text("of the old controls")
            raise Cancelled("Stopped while decoding.")
        assert not kept.exists(), kept.read_text()
        return super().make(ask, on, cancel)


def test_a_branch_goes_on_with_no_clip_begun_under_other_controls(tmp_path: Path) -> None:
    """The latents of a clip that was stopped have its controls in them; its ask has not."""
    with pytest.raises(Cancelled):
        chain(tmp_path, Keeping(stop_at=1), story(controls={"latent_adain": 0.5})).run()
    made = story(controls={"latent_adain": 0.0})
    chain(tmp_path, Keeping(), made).run(resume=True, from_clip=1)


def edit(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["schedule"].pop("clips"),
        lambda data: data["schedule"].update(clips=[{}]),
        lambda data: data["schedule"].update(clips=5),
        lambda data: data.update(chosen=[1]),
        lambda data: data.update(superseded=5),
        lambda data: data.update(identity=None),
        lambda data: data["schedule"].update(seed="x"),
    ],
)
def test_an_edited_manifest_is_one_sentence(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    chain(tmp_path, drifting()).run()
    edit(tmp_path / "chain" / NAME, change)
    with pytest.raises(BadMedia, match=r"manifest\.json is damaged"):
        chain(tmp_path, drifting()).run(resume=True, from_clip=1)


@pytest.mark.parametrize("name", ["files", "colour", "plan", "first"])
def test_an_edited_take_is_one_sentence_and_can_be_made_anew(tmp_path: Path, name: str) -> None:
    chain(tmp_path, drifting()).run(tmp_path / "old.mkv")
    edit(tmp_path / "chain" / "takes" / "001-0" / "take.json", lambda data: data.pop(name))
    with pytest.raises(BadMedia, match=r"take\.json is damaged .*remake"):
        chain(tmp_path, drifting()).run(resume=True)
    chain(tmp_path, drifting()).run(tmp_path / "new.mkv", resume=True, remake=True)
    frames = [np.concatenate(list(read_video(tmp_path / f"{n}.mkv"))) for n in ("old", "new")]
    assert (frames[0] == frames[1]).all()


def test_a_folder_may_be_moved(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        chain(tmp_path / "one", DriftyMaker(gain=0.97, noise=0.004, fail_at=2)).run()
    shutil.move(tmp_path / "one", tmp_path / "the other")
    chain(tmp_path / "the other", drifting()).run(tmp_path / "moved.mkv", resume=True)
    chain(tmp_path / "whole", drifting()).run(tmp_path / "whole.mkv")
    assert content(tmp_path / "moved.mkv") == content(tmp_path / "whole.mkv")


@pytest.mark.parametrize("stands", ["file", "lock"])
def test_a_folder_that_cannot_be_one_is_told(tmp_path: Path, stands: str) -> None:
    folder = tmp_path / "chain"
    if stands == "file":
        folder.write_text("mine")
    else:
        (folder / "lock").mkdir(parents=True)
    with pytest.raises(DoesNotFit, match="choose another folder"), locked(folder):
        pass


def test_a_full_disk_does_not_hide_why_a_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    maker = drifting()
    maker.stop_at = 2
    with monkeypatch.context() as patch:
        patch.setattr("chaining.chain_run.assemble", full)
        with pytest.raises(Cancelled) as found:
            chain(tmp_path, maker).run(tmp_path / "video.mkv")
    assert any("No space left" in note for note in found.value.__notes__)


def test_a_disk_that_fills_while_a_take_is_written_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors import SafetensorError

    def full(*args: Any, **kwargs: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    with monkeypatch.context() as patch:
        patch.setattr("safetensors.numpy.save_file", full)
        with pytest.raises(DoesNotFit, match="cannot be written"):
            chain(tmp_path, drifting()).run()
    assert not list((tmp_path / "chain").rglob("*.part"))
    maker = drifting()
    chain(tmp_path, maker).run(tmp_path / "video.mkv", resume=True)
    chain(tmp_path / "whole", drifting()).run(tmp_path / "whole.mkv")
    assert content(tmp_path / "video.mkv") == content(tmp_path / "whole.mkv")


def test_a_picture_for_a_model_that_takes_none_is_told_as_one_picture(tmp_path: Path) -> None:
    from chaining.engine_maker import first_plan
    from vidgen.device import named
    from vidgen.models import resolve

    picture = tmp_path / "my picture \u00e9.png"
    save_image(picture, np.zeros((8, 8, 3), np.float32))
    made = story(shots=[{"prompt": "a", "seconds": 1, "image": str(picture)}])
    with pytest.raises(Unsupported) as found:
        first_plan(made, named("cpu"), resolve("wan2.1-t2v-1.3b"))
    assert "last frame" not in found.value.message.split(";")[0]


@pytest.mark.parametrize("recipe", ['{"vidgen_chain": 1}', '{"vidgen_chain": 1, "chain": 5}'])
def test_a_damaged_recipe_is_a_reason_to_go_on_without_it(tmp_path: Path, recipe: str) -> None:
    from chaining.extend import Original
    from chaining.held import find_held

    video = tmp_path / "video.mkv"
    chain(tmp_path, drifting()).run()
    how: dict[str, Any] = {"width": 16, "height": 16, "profile": "master"}
    with VideoWriter(video, fps=Fraction(16), recipe=recipe, **how) as file:
        file.write(np.zeros((9, 16, 16, 3), np.float32))
    original = Original(path=video, info=probe_video(video), kept=9)
    assert find_held(original, tmp_path / "chain") == "The recipe of video.mkv is damaged."


def test_a_bridge_shows_a_frame_however_short_it_is() -> None:
    shots = [{"prompt": "a", "seconds": 1}, {"prompt": "b", "seconds": 1, "transition": "bridge"}]
    made = parse_story({"shots": shots, "seed": 1, "handover": {"bridge_seconds": 0.01}})
    for step in (1, 2, 4):
        lengths = Lengths(step, 1 + 4 * step, 81)
        found = make_schedule(made, lengths, Fraction(16), frozenset(Capability))
        assert all(clip.shown > 0 for clip in found.shown)


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    """A user names the wrong folder, one that is in use for something else."""
    mine = [tmp_path / name for name in ("movie.iso.part", "takes/mine/a.part", "takes/b.part")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    Chain(story(), drifting(), tmp_path, measure=False).run()
    assert [path.read_text() for path in mine] == ["mine"] * 3


def test_a_folder_called_unfinished_with_files_of_others_is_refused(tmp_path: Path) -> None:
    thesis = tmp_path / "unfinished" / "thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    with pytest.raises(BadRequest, match=r"unfinished holds 'thesis.txt'.*name another folder"):
        Chain(story(), drifting(), tmp_path, measure=False).run()
    assert thesis.read_text() == "mine"


def test_the_home_of_nobody_is_a_name_like_any_other(write: Write) -> None:
    story = read_story(write("a.yaml", "shots: [{prompt: a, seconds: 1, image: ~nosuch/x.png}]\n"))
    assert (story.shots[0].image or "").endswith("~nosuch/x.png")
