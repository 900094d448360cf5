"""Jobs of the bundled model: the same clips as the command line makes, stopped and gone on with."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from chaining.chain import Chain
from chaining.engine_maker import EngineMaker, first_plan
from chaining.story import parse_story
from server.database import open_database
from server.database.migrate import migrate
from server.queue.job import Job
from server.states import JobState
from server.worker.engine_renderer import EngineRenderer
from server.worker.runner import Runner
from tests.server.worker.floor import ROOT, Floor
from vidgen.events import Callback, Event, Progress
from vidgen.media import probe_video, read_frame, read_image, read_recipe

pytestmark = pytest.mark.slow

PROMPT = "a big red ball moves quickly left over the sand"
REQUEST: dict[str, Any] = {"prompt": PROMPT, "seed": 5, "width": 96, "height": 96,
                           "num_frames": 17, "num_inference_steps": 4}  # fmt: skip
STORY: dict[str, Any] = {
    "shots": [{"prompt": PROMPT, "seconds": 2.0}],
    "seed": 3,
    "request": {"width": 96, "height": 96, "num_frames": 17, "num_inference_steps": 3},
}


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> EngineRenderer:
    """Return the engine, loaded once."""
    return EngineRenderer("cpu", tmp_path_factory.mktemp("engine"))


@pytest.fixture
def real(tmp_path: Path, renderer: EngineRenderer) -> "Real":
    """Return a floor with the real renderer."""
    return Real(tmp_path, renderer)


class Real(Floor):
    """A floor whose jobs are made by the engine."""

    def __init__(self, folder: Path, renderer: EngineRenderer) -> None:
        db = open_database(f"sqlite:///{folder / 'vidgen.db'}")
        migrate(db)
        super().__init__(db, folder / "home")
        self.renderer = renderer

    def ask(self, payload: dict[str, Any], clips: int = 1) -> Job:
        kind = "chain" if "story" in payload else "clip"
        return self.job(payload=payload, clips=clips, model="toyworld", kind=kind)

    def make(self, payload: dict[str, Any], clips: int = 1) -> Job:
        """Make a job from end to end."""
        job = self.ask(payload, clips)
        self.work(renderer=self.renderer)
        done = self.get(job)
        assert (done.state, done.error) == (JobState.COMPLETED, None)
        return done

    def stopped_at(self, job: Job, what: Any, step: int) -> list[tuple[str, int]]:
        """Do a job and ask for a stop when a denoising step is done; return all steps done."""
        told: list[tuple[str, int]] = []
        runners: list[Runner] = []

        def hear(event: Event) -> None:
            if isinstance(event, Progress):
                told.append((event.stage, event.done))
                if told[-1] == ("denoise", step):
                    self.jobs.ask_stop(job.id, None, what)
                    self.until(lambda: runners[0].stop.reason is not None)

        runner = self.claimed(renderer=Overheard(self.renderer, hear))
        assert runner is not None
        runners.append(runner)
        runner.run()
        return told

    def path(self, job: Job, variant: str) -> Path:
        found = self.store.local_path(job.artifacts[variant]["key"])
        assert found is not None
        return found


class Overheard:
    """The engine's renderer, whose steps someone else hears too."""

    def __init__(self, renderer: EngineRenderer, hear: Callable[[Event], None]) -> None:
        self._renderer = renderer
        self._hear = hear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renderer, name)

    def open(self, job: Job, payload: dict[str, Any], folder: Path) -> Any:
        session: Any = self._renderer.open(job, payload, folder)
        make = session.make

        def made(idx: int, attempt: Any, on: Callback, cancel: Any) -> Any:
            def both(event: Event) -> None:
                on(event)
                self._hear(event)

            return make(idx, attempt, both, cancel)

        session.make = made
        return session


def by_command_line(folder: Path) -> str:
    """Return the hash of the latents that `vidgen generate` makes in a process of its own."""
    out = folder / "fresh.mp4"
    words = [PROMPT, "--out", str(out), "--seed", "5", "--width", "96", "--height", "96",
             "--num-frames", "17", "--num-inference-steps", "4", "--device", "cpu",
             "--home", str(folder / "fresh-home")]  # fmt: skip
    subprocess.run([sys.executable, "-m", "vidgen.cli", "generate", *words], cwd=ROOT, check=True,
                   capture_output=True)  # fmt: skip
    return str(json.loads(read_recipe(out) or "")["latents_sha256"])


def test_after_a_cancel_the_next_job_is_bit_equal_to_a_fresh_process(real: Real) -> None:
    wanted = by_command_line(real.home)
    cancelled = real.ask({"request": {**REQUEST, "seed": 9}})
    told = real.stopped_at(cancelled, "cancel", 2)
    assert real.get(cancelled).state is JobState.CANCELLED
    assert told[-1] == ("denoise", 2)  # not one step more
    idle = psutil.Process().memory_info().rss
    done = real.make({"request": REQUEST})
    assert real.jobs.clips(done.id)[0].sha256 == wanted
    assert json.loads(read_recipe(real.path(done, "video")) or "")["latents_sha256"] == wanted
    real.renderer.rest()
    assert psutil.Process().memory_info().rss < idle + (150 << 20)


def test_a_paused_denoise_goes_on_to_the_same_latents(real: Real) -> None:
    whole = real.make({"request": REQUEST})
    job = real.ask({"request": REQUEST})
    real.stopped_at(job, "pause", 2)
    assert real.get(job).state is JobState.PAUSED
    real.jobs.resume(job.id, None)
    told = real.stopped_at(job, "cancel", 99)
    assert [step for phase, step in told if phase == "denoise"] == [3, 4]
    assert real.get(job).state is JobState.COMPLETED
    assert real.jobs.clips(job.id)[0].sha256 == real.jobs.clips(whole.id)[0].sha256


def test_the_files_of_a_clip(real: Real) -> None:
    done = real.make({"request": REQUEST})
    video, master = real.path(done, "video"), real.path(done, "master")
    assert probe_video(video).num_frames == probe_video(master).num_frames == 17
    assert np.abs(read_frame(video, 8) - read_frame(master, 8)).mean() < 0.02
    last = read_frame(master, 16)
    assert np.abs(read_image(str(real.path(done, "last_frame"))).pixels_hwc - last).max() < 0.005
    assert done.usage["stages"]["denoise"] > 0
    report = json.loads(real.path(done, "report").read_text())
    assert report["video"]["latents_sha256"] == real.jobs.clips(done.id)[0].sha256
    assert not (Path(real.settings.work) / done.id).exists()


def test_a_chain_is_what_chaining_makes(real: Real) -> None:
    done = real.make({"story": STORY}, clips=2)
    story = parse_story(STORY)
    profile = real.renderer.profile
    maker = EngineMaker(story, profile, real.renderer.engine(first_plan(story, profile)))
    result = Chain(story, maker, real.home / "chain").run(real.home / "direct.mp4")
    assert [row.sha256 for row in real.jobs.clips(done.id)] == [
        take.record["recipe"]["latents_sha256"] for take in result.takes]  # fmt: skip
    assert result.video is not None
    assert real.path(done, "video").read_bytes() == result.video.read_bytes()
    assert done.report is not None
    assert done.report["drift"] is not None


def test_a_video_is_gone_on_with(real: Real) -> None:
    clip = real.make({"request": REQUEST})
    story = {**STORY, "shots": [{"prompt": PROMPT, "seconds": 1.0}]}
    story["request"] = {"num_frames": 17, "num_inference_steps": 3}
    extension = {"video": f"job:{clip.id}", "size": [96, 96]}
    done = real.make({"story": story, "extension": extension}, clips=1)
    video = real.path(done, "video")
    (row,) = real.jobs.clips(done.id)
    assert probe_video(video).num_frames == 17 + row.num_frames
    assert (row.metrics["place"], row.metrics["first"]) == (0, 0)
    before = read_frame(real.path(clip, "video"), 5)
    assert np.abs(read_frame(real.path(done, "master"), 5) - before).max() < 0.01
    assert "/" not in json.dumps(json.loads(read_recipe(video) or "")["extends"]["file"])


def test_a_fork_takes_over_clips_and_pays_for_none_of_them(real: Real) -> None:
    parent = real.make({"story": STORY}, clips=2)
    story = {**STORY, "controls": {"latent_adain": 0.3}}
    fork = real.make({"story": story, "takes": {"job": parent.id, "clips": 1}}, clips=2)
    old, new = real.jobs.clips(parent.id), real.jobs.clips(fork.id)
    assert new[0].sha256 == old[0].sha256
    assert (new[0].seconds, new[0].metrics["taken_over"]) == (0.0, True)
    assert new[1].sha256 != old[1].sha256
    assert fork.usage["gpu_seconds"] == pytest.approx(new[1].seconds, abs=1e-3)


def test_the_choices_that_a_fork_takes_over_stand(real: Real) -> None:
    parent = real.make({"story": STORY}, clips=2)
    story = {**STORY, "controls": {"best_of_seams": 2}}
    fork = real.make({"story": story, "takes": {"job": parent.id, "clips": 2}}, clips=2)
    old, new = real.jobs.clips(parent.id), real.jobs.clips(fork.id)
    assert [row.sha256 for row in new] == [row.sha256 for row in old]
    assert all(row.metrics["taken_over"] for row in new)
    assert fork.usage["gpu_seconds"] == 0


def test_a_bad_request_and_a_missing_model_end_honestly(real: Real) -> None:
    for change, code in (({"format": "png"}, "unprocessable"),
                         ({"model": "wan2.1-i2v-14b-480p"}, "unprocessable")):  # fmt: skip
        job = real.ask({"request": {**REQUEST, **change}})
        real.work(renderer=real.renderer)
        assert (real.get(job).error or {})["code"] == code
