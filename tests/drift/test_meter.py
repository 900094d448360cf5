"""The meter on line: what it says after each clip, and that it can be taken up again."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaining.drift import flash, recall, seams, timeline
from chaining.drift.analysis import analyse
from chaining.drift.bases import Synthetic
from chaining.drift.drift import Drift
from chaining.drift.features import ClipFeatures
from chaining.drift.inject import INJECTIONS, Injector
from chaining.drift.meter import DriftMeter, measure
from chaining.drift.readings import Reader
from chaining.drift.timeline import around, lay_out, middle_and_spread, usual
from tests.drift.footage import CLIP, chain, drawn
from vidgen.errors import BadMedia, BadRequest


def _push(meter: DriftMeter, spec: str, num_clips: int):
    injector = Injector.parse(spec)
    return [meter.push(injector.apply(drawn(k), k), seed=k) for k in range(num_clips)]


def test_the_slope_comes_with_the_third_clip() -> None:
    states = _push(DriftMeter(16, width=96), "gain=0.97", 5)
    assert [bool(state.slopes) for state in states] == [False, False, True, True, True]
    assert np.exp(states[-1].slopes["gain"].value) == pytest.approx(0.97, abs=5e-4)
    assert states[0].verdict.overall == "inconclusive"


def test_a_dark_future_is_forecast_and_rebasing_advised() -> None:
    states = _push(DriftMeter(16, width=96, requested_clips=40), "gain=0.9", 5)
    last = states[-1]
    luma = drawn(4)[4:].mean() * 0.9**4
    expected = np.log(16 / 255 / luma) / np.log(0.9)
    assert last.forecast["black"].clips == pytest.approx(expected, rel=0.03)
    assert last.advice == "rebase"
    assert "black" in last.why
    assert last.verdict.by_group["forecast"] == "fail"


def test_good_clips_go_on() -> None:
    states = _push(DriftMeter(16, width=96, requested_clips=8), "none", 4)
    assert [state.advice for state in states] == ["continue"] * 4
    assert states[-1].forecast["black"].clips is None
    passed = {name for name, found in states[-1].verdict.by_group.items() if found == "pass"}
    assert passed >= {"tone", "colour", "motion", "seams", "events", "forecast"}


def test_a_bad_seam_is_to_be_made_again() -> None:
    meter = DriftMeter(16, width=96)
    _push(meter, "none", 3)
    good = meter.features
    state = meter.push(drawn(3) + np.float32(0.06))
    assert state.advice == "retry_seam"
    assert f"frame {3 * CLIP}" in state.why
    assert DriftMeter(16, width=96, features=good).push(drawn(3)).advice == "continue"


def test_a_still_clip_stops_the_chain() -> None:
    meter = DriftMeter(16, width=96)
    _push(meter, "none", 3)
    state = meter.push(np.repeat(drawn(2)[-1:], CLIP, axis=0))
    assert state.advice == "stop"
    assert "stands still" in state.why


def test_the_last_light_stops_the_chain() -> None:
    meter = DriftMeter(16, width=96)
    state = _push(meter, "gain=0.5", 4)[-1]
    assert (state.advice, "black" in state.why) == ("stop", True)


def test_a_cut_begins_anew() -> None:
    meter = DriftMeter(16, width=96)
    _push(meter, "gain=0.97", 4)
    state = meter.push(drawn(0, seed=5), kind="cut")
    assert state.slopes == {}
    report = meter.report()
    assert [(s.first, s.last) for s in report.segments] == [(0, 3), (4, 4)]
    assert report.main.first == 0
    assert set(report.clips[4].readings.values()) == {0.0}


def test_a_chain_of_cuts_has_no_trend() -> None:
    kinds = dict.fromkeys(range(1, 5), "cut")
    drift = analyse(chain("gain=0.9", 5, lambda k: drawn(0, seed=k), kinds=kinds))
    assert drift.slopes == {}
    assert drift.verdict.overall == "inconclusive"
    assert any("a slope needs 3" in reason for reason in drift.verdict.reasons)


def test_a_meter_is_taken_up_again(tmp_path: Path) -> None:
    """Features from disk give the very report that a meter gives that never stopped."""
    whole = DriftMeter(16, width=96)
    _push(whole, "gain=0.98,step=0.03", 6)
    first = DriftMeter(16, width=96)
    _push(first, "gain=0.98,step=0.03", 3)
    for k, features in enumerate(first.features):
        features.save(tmp_path / f"{k}.npz")
    saved = [ClipFeatures.load(tmp_path / f"{k}.npz") for k in range(3)]
    second = DriftMeter(16, width=96, features=saved)
    injector = Injector.parse("gain=0.98,step=0.03")
    for k in range(3, 6):
        second.push(injector.apply(drawn(k), k), seed=k)
    assert second.report().as_dict() == whole.report().as_dict()


def _uneven() -> list[ClipFeatures]:
    """Clips of 2 to 30 frames in three segments, so that a seam can wait for two clips."""
    lengths = (24, 16, 5, 3, 2, 30, 24, 4, 24, 17, 24, 12)
    kinds = {5: "cut", 7: "anchor"}
    ends = np.cumsum(lengths)
    frames = Synthetic(0, 96, 54, 40).frames(0, int(ends[-1]))
    return chain(
        "gain=0.98",
        len(lengths),
        lambda k: frames[ends[k] - lengths[k] : ends[k]],
        kinds=kinds,
    )


def test_a_growing_chain_reads_as_if_at_once() -> None:
    clips = _uneven()
    reader, memory = Reader(), {}
    for count in range(1, len(clips) + 1):
        grown = analyse(clips[:count], requested_clips=20, reader=reader)
        assert repr(grown) == repr(analyse(clips[:count], requested_clips=20)), count
        laid = lay_out(clips[:count], memory)
        luma = laid.scalars["luma"]
        here = np.stack(usual(laid, "luma", luma, 12))
        assert (here == np.stack(middle_and_spread(around(luma, 12)))).all(), count
    fewer = [*clips[:3], *clips[8:]]  # another chain than that before
    assert repr(analyse(fewer, reader=reader)) == repr(analyse(fewer))


def test_a_push_reads_the_new_clip_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in what each function is given: frames, seams and pairs of frames to compare."""
    given: Counter[str] = Counter()

    def count(module: Any, name: str, size: Callable[..., int]) -> None:
        real = getattr(module, name)

        def counted(*args: Any) -> Any:
            given[name] += size(*args)
            return real(*args)

        monkeypatch.setattr(module, name, counted)

    count(recall, "_small", len)
    count(recall, "_nearest", lambda *_: 1)
    count(seams, "level_step", lambda *_: 1)
    count(seams, "_read", lambda *_: 1)
    count(flash, "_settling", lambda *_: 1)
    count(timeline, "middle_and_spread", len)
    reader, clips, spent = Reader(), chain("none", 12), []
    for number in range(1, len(clips) + 1):
        given.clear()
        analyse(clips[:number], reader=reader)
        spent.append(dict(given))
    assert spent[-1] == spent[6]
    assert spent[-1]["_small"] == CLIP
    assert spent[-1]["_nearest"] == CLIP // 4
    assert spent[-1]["_read"] == 1


def test_one_call_reads_like_many() -> None:
    frames = np.concatenate([drawn(k) for k in range(3)])
    meter = DriftMeter(16, width=96)
    for k in range(3):
        meter.push(drawn(k))
    chunks = iter([frames[:10], frames[10:50], frames[50:]])
    assert measure(chunks, [CLIP] * 3, fps=16, width=96) == meter.report()


def test_a_report_comes_back_from_json() -> None:
    drift = analyse(chain("gain=0.97", 4), requested_clips=10)
    text = json.dumps(drift.as_dict(), allow_nan=False)
    assert Drift.from_dict(json.loads(text)) == drift


def test_a_damaged_report_is_told() -> None:
    data = analyse(chain("none", 1)).as_dict()
    with pytest.raises(BadMedia, match="version 9"):
        Drift.from_dict(data | {"schema": 9})
    with pytest.raises(BadMedia, match="damaged at verdict"):
        Drift.from_dict(data | {"verdict": 3})


def test_lengths_must_match_the_frames() -> None:
    frames = drawn(0)
    with pytest.raises(BadRequest, match="6 short"):
        measure(frames, [10, 20], fps=16, width=96)
    with pytest.raises(BadRequest, match="add up to 20"):
        measure(frames, [10, 10], fps=16, width=96)
    with pytest.raises(BadRequest, match="1 kinds for 2 clips"):
        measure(frames, [12, 12], fps=16, width=96, kinds=["cut"])


def test_clips_of_two_sizes_do_not_belong_together() -> None:
    meter = DriftMeter(16, width=96)
    meter.push(drawn(0))
    with pytest.raises(BadRequest, match=r"96x44.*96x54"):
        meter.push(drawn(1)[:, :44])
    assert len(meter.features) == 1


def test_an_empty_meter_says_so() -> None:
    with pytest.raises(BadRequest, match="no clips"):
        DriftMeter(16).report()


def test_injections_are_read_from_text() -> None:
    injector = Injector.parse("gain=0.97, blur=0.3")
    assert injector.parts == (("gain", 0.97), ("blur", 0.3))
    with pytest.raises(BadRequest, match="did you mean gain"):
        Injector.parse("gian=0.97")
    with pytest.raises(BadRequest, match="gives no number"):
        Injector.parse("gain")
    with pytest.raises(BadRequest, match=r"use 0\.5 to 2"):
        Injector.parse("gain=7")


@pytest.mark.parametrize("name", INJECTIONS)
def test_each_injection_leaves_clip_0_alone(name: str) -> None:
    injector = Injector.parse(f"{name}={INJECTIONS[name].example}")
    frames = drawn(0, num_frames=4)
    assert np.allclose(injector.apply(frames, 0), frames, atol=1e-6 if name != "blur" else 1e-5)
    assert np.abs(injector.apply(drawn(0), 5) - drawn(0)).max() > 0.01


@pytest.mark.parametrize("num_frames", [1, 2, 5, 13])
def test_clips_too_short_for_a_contrast_of_motion_are_measured(num_frames: int) -> None:
    """The first 15 % of such a clip is its first frame, in which nothing has moved yet."""
    meter = DriftMeter(16, width=96)
    random = np.random.default_rng(0)
    for _ in range(3):
        meter.push(0.4 + 0.2 * random.random((num_frames, 48, 96, 3), dtype=np.float32))
    drift = meter.report()
    assert drift.verdict.overall == "inconclusive"
    assert np.isfinite(drift.contrasts["flow"].signed)
