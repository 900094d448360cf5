"""The official client against `vidgen serve` itself: a toy world clip, and a film of three."""

import io
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import openai
import pytest

from chaining.capabilities import capabilities_of
from chaining.lengths import Lengths
from chaining.schedule import make_schedule
from chaining.story import parse_story
from tests.server.cli.test_serve import Serving
from vidgen.media import read_video
from vidgen.models import resolve

# f frames  r rows  w columns  c channels
pytestmark = pytest.mark.slow

PROMPT = "a big red ball moves quickly left over the sand"
SIDE, RATE, FRAMES = 96, 16, 17
ASKED = {"num_frames": FRAMES, "num_inference_steps": 6, "seed": 5}
BOUNDS = {"max_queue_s": 600, "cancel_after_s": 600}  # so that a poll ends whatever happens


@dataclass(frozen=True)
class Made:
    """A finished video as the client has it, and its files on this machine."""

    video: Any
    path: Path
    master: Path

    def pixels(self) -> npt.NDArray[np.float32]:
        """Return the frames of the video."""
        return np.concatenate(list(read_video(self.path)))

    def lossless(self) -> npt.NDArray[np.float32]:
        """Return the frames of its lossless twin."""
        return np.concatenate(list(read_video(self.master)))


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Run the command with its own worker on the CPU, in a home of its own."""
    made = Serving(tmp_path_factory.mktemp("client") / "home", "--device", "cpu")
    yield made
    made.process.terminate()
    made.process.communicate(timeout=120)


@pytest.fixture(scope="module")
def films(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    """Make a clip, go on with it, and go on with that."""
    folder = tmp_path_factory.mktemp("films")
    client = openai.OpenAI(api_key="none yet", base_url=f"{serving.told['url']}/v1", timeout=60)
    videos: Any = client.videos  # which takes more than its types say

    def kept(video: Any) -> Made:
        assert (video.status, video.error) == ("completed", None)
        paths = [folder / f"{video.id}{suffix}" for suffix in (".mp4", ".mkv")]
        for path, variant in zip(paths, ("video", "master"), strict=True):
            path.write_bytes(videos.download_content(video.id, variant=variant).read())
        return Made(video, *paths)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        done = [kept(videos.create_and_poll(
            prompt=PROMPT, model="toyworld", extra_body={**ASKED, **BOUNDS}
        ))]  # fmt: skip
        asked = videos.extend(
            prompt=PROMPT, seconds="1", video=done[0].path, extra_body={**ASKED, **BOUNDS}
        )
        done.append(kept(videos.poll(asked.id)))
        # The client takes {"id": ..} for a file that it cannot read, so the id goes beside.
        asked = videos.extend(
            prompt="a big red ball stays still on the sand", seconds="1", video=openai.omit,
            extra_body={"video": {"id": done[1].video.id}, "seed": 5, **BOUNDS},
        )  # fmt: skip
        done.append(kept(videos.poll(asked.id)))
    return done


def decoded(path: Path) -> tuple[npt.NDArray[np.uint8], Fraction | None]:
    """Return what PyAV reads of a file: frames (frwc), and frames a second."""
    file: Any
    with av.open(io.BytesIO(path.read_bytes())) as file:
        stream = file.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(stream)]
        return np.stack(frames), stream.average_rate


def scheduled(*seconds: Fraction) -> int:
    """Return the frames of a story of shots that follow one another."""
    family = resolve("toyworld").family
    shots = [{"prompt": "x", "seconds": float(length), "transition": "continue"}
             for length in seconds]  # fmt: skip
    del shots[0]["transition"]
    lengths = Lengths.of(family, FRAMES)
    story = parse_story({"shots": shots})
    found = make_schedule(story, lengths, Fraction(RATE), capabilities_of(family), 1)
    assert len(found.clips) == len(seconds)
    return found.num_frames


def test_a_clip_of_the_toy_world_is_made_and_fetched(serving: Serving, films: list[Made]) -> None:
    first = films[0]
    frames_frwc, rate = decoded(first.path)
    assert frames_frwc.shape == (FRAMES, SIDE, SIDE, 3)
    assert rate == RATE
    assert (first.video.size, first.video.seconds) == ("96x96", str(FRAMES / RATE))
    assert first.video.progress == 100
    assert set(serving.children()) == {"api", "worker cpu:0"}
    places = [ball_at(frame_rwc) for frame_rwc in frames_frwc]
    assert places[0] - places[-1] > SIDE / 4  # a red ball, and it goes left


def ball_at(frame_rwc: npt.NDArray[np.uint8]) -> float:
    """Return the column around which there is red."""
    red, green, blue = np.moveaxis(frame_rwc.astype(int), -1, 0)
    found = (red > 100) & (red > 2 * green) & (red > 2 * blue)
    assert found.mean() > 0.01
    return float(np.nonzero(found)[1].mean())


def test_a_film_of_three_has_the_length_of_its_schedule(films: list[Made]) -> None:
    """Each part begins on the last frame of the one before: 17 + 16 + 16 frames."""
    lengths = [Fraction(FRAMES, RATE), Fraction(1), Fraction(1)]
    for number, made in enumerate(films, 1):
        frames_frwc, rate = decoded(made.path)
        wanted = scheduled(*lengths[:number])
        assert wanted == FRAMES + 16 * (number - 1)
        assert frames_frwc.shape == (wanted, SIDE, SIDE, 3)
        assert rate == RATE
        assert (made.video.num_frames, made.video.seconds) == (wanted, str(wanted / RATE))
    parents = [made.video.lineage["parent"] for made in films]
    assert parents == [None, None, films[1].video.id]  # the second was made of a file


def test_each_film_begins_with_the_one_before(films: list[Made]) -> None:
    """To the last bit in the lossless file; what is delivered is encoded anew, and near to it."""
    for before, after in itertools.pairwise(films):
        earlier_frwc = before.pixels()
        shared_frwc = after.lossless()[: len(earlier_frwc)]
        assert np.abs(shared_frwc - earlier_frwc).max() <= 1 / 65535
    first_frwc = films[0].pixels()
    error_frwc = films[-1].pixels()[: len(first_frwc)] - first_frwc
    assert -10 * np.log10(np.mean(error_frwc**2)) > 40  # dB, after two encodings


def test_what_follows_goes_on_from_the_last_frame(films: list[Made]) -> None:
    """And does what its own prompt says: in the third part the ball lies still."""
    frames_frwc = films[-1].lossless()
    steps_f = np.abs(np.diff(frames_frwc, axis=0)).mean(axis=(1, 2, 3))
    for number in (FRAMES - 1, FRAMES + 15):  # to the first new frame of each part
        jump = np.abs(frames_frwc[number + 1] - frames_frwc[0]).mean()
        assert steps_f[number] < jump / 2
    places = [ball_at(frame_rwc) for frame_rwc in decoded(films[-1].path)[0][-12:]]
    assert max(places) - min(places) < 2
