"""A claimed job comes to the end that is told of it, with its files and figures."""

import io
import threading

import av
import pytest

from server.states import JobState
from server.worker.runner import Runner
from tests.server.worker.floor import Floor


def started(floor: Floor) -> tuple[Runner, threading.Thread]:
    """Claim a job and do it in a thread."""
    runner = floor.claimed()
    assert runner is not None
    thread = threading.Thread(target=runner.run)
    thread.start()
    return runner, thread


def test_a_chain_becomes_files_rows_and_events(floor: Floor) -> None:
    job = floor.job("a ball", clips=3)
    floor.work()
    done = floor.get(job)
    assert (done.state, done.progress, done.error) == (JobState.COMPLETED, 100, None)
    assert set(done.artifacts) == {"video", "master", "latents", "thumbnail", "spritesheet",
                                   "last_frame", "report"}  # fmt: skip
    for facts in done.artifacts.values():
        assert floor.store.head(facts["key"])[0] == facts["bytes"]
    rows = floor.jobs.clips(job.id)
    assert [(row.idx, row.seed, row.num_frames, row.metrics["first"]) for row in rows] == [
        (0, 7, 8, 0), (1, 8, 8, 8), (2, 9, 8, 16)]  # fmt: skip
    assert done.usage["clips"] == 3
    assert done.usage["frames"] == 24
    assert done.usage["gpu_seconds"] == pytest.approx(sum(row.seconds for row in rows), abs=1e-3)
    assert [item["usable"] for item in (done.report or {})["quality"]] == [True] * 3
    kinds = [event["state"] for event in floor.events(job, "job.started")]
    assert kinds == ["running"]
    assert len(floor.events(job, "clip.completed")) == 3


def test_pieces_of_clips_are_one_video_with_as_many_frames(floor: Floor) -> None:
    job = floor.job("a ball", clips=3)
    floor.work()
    rows = floor.jobs.clips(job.id)
    keys = [rows[0].artifacts["init"]["key"], *(row.artifacts["segment"]["key"] for row in rows)]
    data = b"".join(b"".join(floor.store.get_range(key)) for key in keys)
    with av.open(io.BytesIO(data), "r") as container:
        assert sum(1 for _ in container.decode(video=0)) == 24


def test_progress_never_goes_back_and_is_told_sparsely(floor: Floor) -> None:
    job = floor.job("a ball steps=10 step=0.1 black@1=1", clips=2)
    floor.work()
    told = [event["progress"] for event in floor.events(job) if "progress" in event]
    assert told == sorted(told)
    assert max(told[:-1]) <= 99
    steps = [event for event in floor.events(job, "progress") if "step" in event]
    assert 2 <= len(steps) <= 10  # 30 steps in three seconds, two events a second
    assert 1 <= len(floor.events(job, "preview")) <= 3


def test_a_zero_retention_job_shows_no_preview(floor: Floor) -> None:
    job = floor.job("a ball steps=10 step=0.1", zdr=True)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert floor.events(job, "preview") == []
    assert not list(floor.home.rglob("*.webp"))


@pytest.mark.parametrize("fault", ["black", "noise", "frozen", "nan"])
def test_an_unusable_clip_is_made_with_a_new_seed(floor: Floor, fault: str) -> None:
    job = floor.job(f"a ball {fault}@1=1", clips=2)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    calls = [(call["clip"], call["attempt"], call["dense"]) for call in floor.calls()]
    assert calls == [(0, 0, False), (1, 0, False), (1, 1, False)]
    row = floor.jobs.clips(job.id)[1]
    assert row.attempt == 1
    assert row.seed not in (8, 9)
    (told,) = floor.events(job, "clip.retried")
    assert (told["clip"], told["attempt"]) == (1, 1)
    assert told["reason"] == {"nan": "nan_latents"}.get(fault, fault)
    usage = floor.get(job).usage
    assert usage["retries_unbilled"]["attempts"] == 1
    assert usage["clips"] == 2


def test_then_full_attention_then_an_honest_failure(floor: Floor) -> None:
    job = floor.job("a ball black@1=9", clips=3)
    floor.work()
    failed = floor.get(job)
    assert failed.state is JobState.FAILED
    error = failed.error or {}
    assert error["code"] == "output_collapsed"
    assert error["retryable"]
    assert error["clips_completed"] == 1
    assert [(call["attempt"], call["dense"]) for call in floor.calls() if call["clip"] == 1] == [
        (0, False), (1, False), (2, True)]  # fmt: skip
    reasons = [item["reason"] for item in (failed.report or {})["attempts"]]
    assert reasons == ["black"] * 3
    assert len({item["seed"] for item in (failed.report or {})["attempts"]}) == 3
    assert failed.artifacts == {}
    row = floor.jobs.clips(job.id)[0]  # what was finished can still be seen
    assert floor.store.head(row.artifacts["clip"]["key"])[0] > 0


def test_a_failed_job_goes_on_with_further_seeds_when_it_is_resumed(floor: Floor) -> None:
    job = floor.job("a ball black@1=4", clips=2)
    floor.work()
    assert floor.get(job).state is JobState.FAILED
    floor.jobs.resume(job.id, None)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert [call["attempt"] for call in floor.calls() if call["clip"] == 1] == [0, 1, 2, 3, 4]
    assert len([call for call in floor.calls() if call["clip"] == 0]) == 1


def test_clips_from_which_a_job_is_retried_are_made_anew(floor: Floor) -> None:
    job = floor.job("a ball black@1=3", clips=2)
    floor.work()
    assert floor.get(job).state is JobState.FAILED
    floor.jobs.retry(job.id, None, from_clip=0)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert [call["attempt"] for call in floor.calls() if call["clip"] == 0] == [0, 1]
    assert floor.jobs.clips(job.id)[0].seed != 7


def test_memory_that_runs_out_is_met_once(floor: Floor) -> None:
    job = floor.job("a ball oom@0=1", clips=2)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert [(call["clip"], call["lean"]) for call in floor.calls()] == [
        (0, False), (0, True), (1, False)]  # fmt: skip
    worse = floor.job("a ball oom@0=2")
    floor.work()
    assert (floor.get(worse).error or {})["code"] == "out_of_memory"


def test_drift_ends_the_job_and_keeps_what_is_made(floor: Floor) -> None:
    job = floor.job("a ball drift@1=1", clips=3)
    floor.work()
    error = floor.get(job).error or {}
    assert error["code"] == "drift_exceeded"
    assert error["clips_completed"] == 2
    assert [row.idx for row in floor.jobs.clips(job.id)] == [0, 1]


def test_an_unknown_error_is_told_without_its_words(floor: Floor) -> None:
    job = floor.job("a ball error@0=1")
    floor.work()
    error = floor.get(job).error or {}
    assert error["code"] == "internal"
    assert "a fault of the fake" not in error["message"]


def test_the_log_says_no_word_of_a_zero_retention_job(
    floor: Floor, caplog: pytest.LogCaptureFixture
) -> None:
    floor.job("a ball error@0=1")
    floor.work()
    assert "a fault of the fake" in caplog.text
    caplog.clear()
    floor.job("a ball error@0=1", zdr=True)
    floor.work()
    assert "unknown error" in caplog.text
    assert "a fault of the fake" not in caplog.text


def test_cancel_stops_at_the_next_step(floor: Floor) -> None:
    job = floor.job("a ball steps=1000 step=0.05", clips=2)
    _, thread = started(floor)
    floor.until(lambda: floor.get(job).state is JobState.RUNNING)
    floor.jobs.ask_stop(job.id, None, "cancel")
    thread.join(30)
    cancelled = floor.get(job)
    assert cancelled.state is JobState.CANCELLED
    assert (cancelled.error or {})["code"] == "cancelled"
    assert cancelled.usage["gpu_seconds"] > 0
    assert floor.calls("end") == []


def test_a_paused_job_goes_on_without_making_its_clips_again(floor: Floor) -> None:
    job = floor.job("a ball steps=20 step=0.05", clips=3)
    _, thread = started(floor)
    floor.until(lambda: len(floor.calls()) == 2)
    floor.jobs.ask_stop(job.id, None, "pause")
    thread.join(30)
    paused = floor.get(job)
    assert (paused.state, paused.error) == (JobState.PAUSED, None)
    floor.jobs.resume(job.id, None)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert [call["clip"] for call in floor.calls("end")] == [0, 1, 2]


def test_a_cancel_that_comes_while_it_pauses_wins(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = floor.job("a ball steps=1000 step=0.05")
    runner, thread = started(floor)
    save = runner._place.save

    def late() -> None:
        floor.jobs.ask_stop(job.id, None, "cancel")
        save()

    monkeypatch.setattr(runner._place, "save", late)
    floor.until(lambda: floor.get(job).state is JobState.RUNNING)
    floor.jobs.ask_stop(job.id, None, "pause")
    thread.join(30)
    assert floor.get(job).state is JobState.CANCELLED


def test_a_deleted_job_leaves_no_file(floor: Floor) -> None:
    job = floor.job("a ball steps=20 step=0.05", clips=2)
    _, thread = started(floor)
    floor.until(lambda: len(floor.calls()) == 2)
    floor.jobs.ask_stop(job.id, None, "delete")
    thread.join(30)
    assert floor.get(job).state is JobState.CANCELLED
    assert not [path for path in floor.home.rglob("*") if job.id in str(path)]


def test_deletion_that_races_with_the_end_leaves_no_file(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = floor.job("a ball")
    runner = floor.claimed()
    assert runner is not None
    store = runner._keepsakes.results

    def late(*given: object) -> object:
        stored = store(*given)  # type: ignore[arg-type]
        floor.jobs.ask_stop(job.id, None, "delete")
        floor.until(lambda: runner.stop.reason == "delete")
        return stored

    monkeypatch.setattr(runner._keepsakes, "results", late)
    runner.run()
    assert floor.get(job).state is JobState.CANCELLED
    assert not [path for path in floor.home.rglob("*") if job.id in str(path)]


def test_a_job_that_runs_for_too_long_is_stopped(floor: Floor) -> None:
    job = floor.job("a ball steps=1000 step=0.05", run_limit_seconds=0.5)
    floor.work()
    assert (floor.get(job).error or {})["code"] == "deadline_exceeded"


def test_a_clip_whose_files_are_gone_is_made_again(floor: Floor) -> None:
    job = floor.job("a ball steps=20 step=0.05", clips=2)
    runner, thread = started(floor)
    floor.until(lambda: len(floor.calls()) == 2)
    floor.jobs.ask_stop(job.id, None, "pause")
    thread.join(30)
    (runner._place.folder / "0.npy").unlink()
    floor.jobs.resume(job.id, None)
    floor.work()
    assert floor.get(job).state is JobState.COMPLETED
    assert [call["clip"] for call in floor.calls("end")] == [0, 0, 1]
    assert len(floor.jobs.clips(job.id)) == 2


def test_a_cancel_says_how_many_clips_there_are(floor: Floor) -> None:
    job = floor.job("a ball steps=20 step=0.05", clips=4)
    _, thread = started(floor)
    floor.until(lambda: len(floor.calls("end")) == 2)
    floor.jobs.ask_stop(job.id, None, "cancel")
    thread.join(30)
    cancelled = floor.get(job)
    error = cancelled.error or {}
    assert cancelled.clips_completed >= 2
    assert f"with {cancelled.clips_completed} of 4 clips made" in error["message"]
    assert (error["partial"], error["clips_completed"]) == (True, cancelled.clips_completed)


def test_a_cancel_before_the_first_move_is_a_cancel(floor: Floor) -> None:
    job = floor.job("a ball steps=1")
    runner = floor.claimed()
    assert runner is not None
    floor.jobs.ask_stop(job.id, None, "cancel")
    runner.run()
    cancelled = floor.get(job)
    assert cancelled.state is JobState.CANCELLED
    assert (cancelled.error or {})["code"] == "cancelled"
