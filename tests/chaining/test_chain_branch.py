"""Branches: a chain told anew from a clip on keeps what comes before it, and takes up no more."""

import json
from pathlib import Path
from typing import Any

import pytest

from chaining.manifest import NAME
from chaining.story import Story
from tests.chaining.drifty import DriftyMaker
from tests.chaining.test_chain_resume import chain, content, drifting, story
from vidgen.errors import BadRequest


def test_branches_keep_the_old_takes(tmp_path: Path) -> None:
    chain(tmp_path, drifting()).run(tmp_path / "old.mkv")
    clips = len(chain(tmp_path, drifting()).schedule.clips)
    for branch, first in ((1, 2), (2, 1)):
        maker = drifting()
        result = chain(tmp_path, maker).run(tmp_path / "a.mkv", resume=True, from_clip=first)
        assert content(tmp_path / "a.mkv") == content(tmp_path / "old.mkv")
        assert maker.calls == clips - first
        names = [take.name for take in result.takes]
        assert names[:first] == ["000-0", "001-0"][:first]
        assert names[2:] == [f"{i:03d}-{branch}" for i in range(2, clips)]
        assert (tmp_path / "chain" / "takes" / f"002-{branch - 1}" / "frames.mkv").is_file()
    assert names[1] == "001-1"


def test_a_branch_with_other_trials_leaves_what_comes_before_it(tmp_path: Path) -> None:
    def trials(number: int) -> Story:
        return story(2.05, controls={"best_of_seams": number})

    def run(number: int, **how: Any) -> tuple[int, list[str]]:
        maker = drifting()
        result = chain(tmp_path, maker, trials(number)).run(resume=True, **how)
        return maker.calls, [take.name for take in result.takes]

    chain(tmp_path, drifting(), trials(1)).run()
    calls, names = run(3, from_clip=3)
    assert (calls, names[:3]) == (3, ["000-0", "001-0", "002-0"])
    assert run(3) == (0, names)
    calls, names = run(1, from_clip=3)
    assert (calls, names[:3]) == (1, ["000-0", "001-0", "002-0"])


def test_a_branch_takes_up_nothing_of_a_branch_that_was_left(tmp_path: Path) -> None:
    """The clips that a shorter branch lacks continue one that it replaced, by the same plan."""

    def run(clips: int, lock: str = "pair_affine", **how: Any) -> tuple[int, list[str]]:
        maker = drifting()
        told = story((1 + 8 * clips) / 16, controls={"colour_lock": lock})
        result = chain(tmp_path, maker, told).run(**how)
        return maker.calls, [take.name for take in result.takes]

    run(6)
    assert run(4, "off", resume=True, from_clip=3)[1][3] == "003-1"
    calls, names = run(6, "off", resume=True, from_clip=5)
    assert (calls, names[3:]) == (2, ["003-1", "004-1", "005-1"])


def test_an_option_that_does_nothing_is_refused_of_what_is_new_only(tmp_path: Path) -> None:
    useless = {"overlap": 5}
    with pytest.raises(BadRequest, match="does nothing"):
        chain(tmp_path, drifting(), story(handover=useless))
    chain(tmp_path, drifting()).run()
    with pytest.raises(BadRequest, match=r"overlap=5 does nothing"):
        chain(tmp_path, drifting(), story(handover=useless)).run(resume=True, from_clip=1)
    noisy = story(strategy="keyframes", controls={"history_noise": 0.1})
    with pytest.raises(BadRequest, match=r"history_noise=0\.1 does nothing"):
        chain(tmp_path, drifting(), noisy).run(resume=True, from_clip=0)
    path = tmp_path / "chain" / NAME
    data = json.loads(path.read_text())
    data["story"]["handover"] |= useless
    path.write_text(json.dumps(data))
    chain(tmp_path, drifting(), story(handover=useless)).run(resume=True)
    chain(tmp_path, drifting(), story(handover=useless)).run(resume=True, from_clip=1)


class Upgraded(DriftyMaker):
    """One whose every clip is made otherwise than before."""

    @property
    def identity(self) -> dict[str, Any]:
        return {**super().identity, "weights": "others"}


def test_a_branch_may_tell_another_end_but_not_another_start(tmp_path: Path) -> None:
    def told(first: str, second: str) -> Story:
        return story(shots=[{"prompt": first, "seconds": 1.0}, {"prompt": second, "seconds": 1.0}])

    chain(tmp_path, drifting(), told("a", "b")).run()
    other = told("a", "c")
    with pytest.raises(BadRequest, match=r"shots\.1\.prompt: 'b' -> 'c'"):
        chain(tmp_path, drifting(), other).run(resume=True)
    split = next(c.index for c in chain(tmp_path, drifting(), other).schedule.clips if c.shot == 1)
    result = chain(tmp_path, drifting(), other).run(resume=True, from_clip=split)
    assert [take.plan.prompt for take in result.takes] == ["a", "a", "c", "c"]
    with pytest.raises(BadRequest, match="branch from an earlier clip"):
        chain(tmp_path, drifting(), told("z", "c")).run(resume=True, from_clip=split)
    with pytest.raises(BadRequest, match=r"undo that, start another folder\.$"):
        chain(tmp_path, Upgraded(gain=0.97), other).run(resume=True, from_clip=split)
    with pytest.raises(BadRequest, match="use 0 to 3"):
        chain(tmp_path, drifting(), other).run(resume=True, from_clip=4)
    with pytest.raises(BadRequest, match="give resume too"):
        chain(tmp_path / "new", drifting(), other).run(from_clip=1)


def test_a_branch_that_takes_over_more_than_was_kept_is_told(tmp_path: Path) -> None:
    def told(overlap: int) -> Story:
        shots = [{"prompt": "a", "seconds": 17 / 16}, {"prompt": "b", "seconds": 0.5}]
        return story(shots=shots, strategy="overlap", handover={"overlap": overlap})

    chain(tmp_path, DriftyMaker(clip_frames=17), told(5)).run()
    with pytest.raises(BadRequest, match="Clip 1 takes over 9 frames and take 000-0 kept 5"):
        chain(tmp_path, DriftyMaker(clip_frames=17), told(9)).run(resume=True, from_clip=1)
