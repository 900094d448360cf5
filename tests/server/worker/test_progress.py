"""Progress counts predicted seconds, never goes back, and says how long the rest takes."""

import pytest

from server.worker.progress import Progress

COST = {"encode": 1.0, "condition": 1.0, "denoise": 6.0, "decode": 2.0}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_stages_count_by_their_cost() -> None:
    progress = Progress([COST], (), 0)
    total = 10 * 1.02
    assert progress.at(0, "encode", 1, 1).percent == int(100 * 1 / total)
    assert progress.at(0, "denoise", 2, 4).percent == int(100 * 5 / total)
    assert progress.at(0, "decode", 1, 2).percent == int(100 * 9 / total)
    progress.finished(0)
    assert progress.writing(3, 3).percent == 99


def test_clips_that_are_made_count_from_the_start() -> None:
    progress = Progress([COST, COST, COST, COST], {0, 1}, 0)
    assert progress.at(2, "encode", 0, 1).percent == int(100 * 20 / 40.8)


def test_it_never_goes_back_and_stays_below_100() -> None:
    progress = Progress([COST], (), 30)
    told = [progress.at(0, stage, step, 4).percent
            for stage in ("encode", "denoise", "decode", "encode", "denoise")
            for step in range(5)]  # fmt: skip
    assert told == sorted(told)
    assert told[0] == 30
    assert max(told) <= 99


def test_the_rest_takes_as_long_as_the_pace_says() -> None:
    clock = Clock()
    progress = Progress([COST], (), 0, clock)
    assert progress.at(0, "encode", 0, 1).left == pytest.approx(10.2)  # as predicted
    clock.now = 15.0  # three times slower
    reading = progress.at(0, "denoise", 2, 4)
    assert reading.left == pytest.approx(3 * (10.2 - 5.0))


def test_a_job_without_a_prediction_still_counts_its_clips() -> None:
    progress = Progress([{}, {}], (), 0)
    assert progress.at(1, "denoise", 0, 2).percent == 0
    progress.finished(0)
    assert progress.at(1, "denoise", 1, 2).percent == int(100 * 1.5 / 2.04)
