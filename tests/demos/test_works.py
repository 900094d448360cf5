"""What the studio makes of clips, against clips whose figures and colours are known by hand."""

import io
import subprocess
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from demos.ui.gate import Gate
from demos.ui.snippets import story_snippets
from demos.ui.works import MOST_WAITING
from vidgen.media import VideoWriter, probe_video, read_video

FRAMES, SIDE, LEVEL = 6, 32, 100
STORY: dict[str, Any] = {
    "shots": [{"prompt": "a ball's \"way\" $HOME\nSTORY", "seconds": 1.0},
              {"prompt": "é", "seconds": 2.0}],
    "seed": 7,
}  # fmt: skip


def write_clip(path: Path, levels: list[int]) -> None:
    """Write a lossless clip of plain grey frames."""
    frames = [np.full((SIDE, SIDE, 3), level / 255, np.float32) for level in levels]
    with VideoWriter(path, width=SIDE, height=SIDE, fps=Fraction(8), profile="master") as writer:
        writer.write(np.stack(frames))


class Server:
    """An upstream with the clips of a folder; key "none" may not read."""

    address = "http://server"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def call(
        self, _method: str, path: str, key: str | None, *_: Any, **_more: Any
    ) -> httpx.Response:
        """Answer for the queue and the clips."""
        if path == "/v1/queue":
            return httpx.Response(401 if key == "none" else 200, json={})
        name = path.removeprefix("/v1/videos/")
        if not (self._folder / f"{name}.mkv").is_file():
            return httpx.Response(404, json={"error": {"message": f"There is no {name}."}})
        return httpx.Response(200, json={"id": name, "variants": {"video": {"bytes": 1000}}})

    async def save(self, path: str, _key: str | None, target: Path) -> httpx.Response:
        """Write a clip."""
        name = path.removeprefix("/v1/videos/").removesuffix("/content")
        target.write_bytes((self._folder / f"{name}.mkv").read_bytes())
        return httpx.Response(200)

    async def forward(self, *_: Any) -> None:
        """Nothing is passed on here."""
        raise AssertionError


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of clips: plain, lighter frame by frame, and short."""
    folder = tmp_path_factory.mktemp("clips")
    write_clip(folder / "video_plain.mkv", [LEVEL] * FRAMES)
    write_clip(folder / "video_lighter.mkv", [LEVEL + 4 * k for k in range(FRAMES)])
    write_clip(folder / "video_short.mkv", [LEVEL] * 3)
    return folder


@pytest.fixture
def web(clips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """Return a browser's side; afterwards no temporary file is left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    app = FastAPI()
    app.add_middleware(Gate, upstream=Server(clips))
    yield TestClient(app, base_url="http://studio")
    assert list(temporary.iterdir()) == []


def ask(web: TestClient, work: str, *names: str, **more: Any) -> httpx.Response:
    """Have something made of clips."""
    data = {"clips": [f"video_{name}" for name in names], **more}
    answer: httpx.Response = web.post(f"/ui/works/{work}", json=data)
    return answer


def words(answer: httpx.Response) -> str:
    """Return a refusal's sentence."""
    assert answer.status_code == 422
    return str(answer.json()["error"]["message"])


def test_psnr_and_ssim_of_plain_frames_are_those_of_the_formulas(web: TestClient) -> None:
    (found,) = ask(web, "fidelity", "plain", "lighter").json()["clips"]
    shift = 4 * np.arange(FRAMES) / 255
    psnr = [100.0, *(-20 * np.log10(shift[1:]))]
    assert found["psnr_of_frames"] == pytest.approx(psnr, abs=0.01)
    assert found["psnr"] == pytest.approx(-10 * np.log10(np.mean(shift**2)), abs=0.01)
    a, b = LEVEL / 255, LEVEL / 255 + shift
    ssim = (2 * a * b + 1e-4) / (a * a + b * b + 1e-4)  # without variance only this part is left
    assert found["ssim_of_frames"] == pytest.approx(ssim, abs=1e-3)
    assert found["ssim"] == pytest.approx(np.mean(ssim), abs=1e-3)
    assert found["worst_frame"] == FRAMES - 1


def test_clips_that_differ_in_length_are_refused_by_name(web: TestClient) -> None:
    said = words(ask(web, "fidelity", "plain", "short"))
    assert "video_plain.mp4 and video_short.mp4 differ in number of frames (6 and 3)" in said


def test_a_film_shows_the_clips_in_step(web: TestClient, tmp_path: Path) -> None:
    answer = ask(web, "film", "plain", "lighter", labels=["A", "B"])
    assert answer.headers["content-type"] == "video/mp4"
    film = tmp_path / "film.mp4"
    film.write_bytes(answer.content)
    info = probe_video(film)
    assert (info.width, info.num_frames, info.fps) == (2 * 256, FRAMES, 8)
    frames_frwc = np.concatenate(list(read_video(film))) * 255
    rows = slice(info.height - 200, info.height - 40)
    for k, frame_rwc in enumerate(frames_frwc):
        assert frame_rwc[rows, 40:216].mean() == pytest.approx(LEVEL, abs=1)
        assert frame_rwc[rows, 296:472].mean() == pytest.approx(LEVEL + 4 * k, abs=1)


def test_clips_of_different_lengths_can_be_shown_together(web: TestClient, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    film.write_bytes(ask(web, "film", "plain", "short").content)
    assert probe_video(film).num_frames == FRAMES
    assert ask(web, "sheet", "plain", "short").status_code == 200


def test_a_sheet_has_a_row_for_each_clip(web: TestClient) -> None:
    answer = ask(web, "sheet", "plain", "lighter", labels=["A", "B"])
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)).convert("L"))
    cells = [[np.median(part) for part in np.array_split(row, FRAMES, axis=1)]
             for row in np.array_split(pixels, 2)]  # fmt: skip
    assert cells[0] == [LEVEL] * FRAMES
    assert cells[1] == [LEVEL + 4 * k for k in range(FRAMES)]


def test_a_frame_has_the_colours_of_the_file(web: TestClient) -> None:
    answer = ask(web, "frame", "lighter", frame=4)
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)))
    assert pixels.shape == (SIDE, SIDE, 3)
    assert set(pixels.ravel().tolist()) == {LEVEL + 16}
    assert words(ask(web, "frame", "lighter", frame=6)).startswith(
        "Frame 6 is not in video_lighter"
    )


def test_what_cannot_be_made_is_refused_in_a_sentence(web: TestClient) -> None:
    assert words(ask(web, "sheet", "plain")) == "1 clips are named, 2 are needed."
    assert words(ask(web, "frame", "unknown")) == "There is no video_unknown."
    assert "clips" in words(ask(web, "film", *["plain"] * 5))
    assert "clips" in words(web.post("/ui/works/film", json={"clips": ["../etc/passwd"] * 2}))
    assert web.post("/ui/works/other", json={}).status_code == 404
    assert web.get("/ui/works/film").status_code == 404


def test_strangers_and_other_origins_have_nothing_made(web: TestClient) -> None:
    data = {"clips": ["video_plain"]}
    foreign = web.post("/ui/works/frame", json=data, headers={"Origin": "http://evil.example"})
    assert foreign.status_code == 403
    web.cookies.set("vidgen_key", "none")
    assert web.post("/ui/works/frame", json=data).status_code == 401


def test_a_busy_studio_says_so(web: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demos.ui.works.MOST_WAITING", 0)
    assert MOST_WAITING > 0
    assert "busy" in words(ask(web, "frame", "plain"))


def test_the_snippets_of_a_story_carry_all_of_it(tmp_path: Path, web: TestClient) -> None:
    answer = web.post("/ui/works/snippets", json={"story": STORY})
    texts = dict(answer.json()["snippets"])
    said = "vidgen() { cat story.json; }; curl() { cat; echo; }"
    for name in ("CLI", "curl"):
        done = subprocess.run(
            ["bash", "-c", f"{said}\n{texts[name]}"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert httpx.Response(200, text=done.stdout).json() == STORY
    code = compile(texts["Python"].split("\nclient")[1].split("\nstory = ")[1].split("\nboard")[0],
                   "story", "eval")  # fmt: skip
    assert eval(code) == STORY
    compile(texts["Python"], "snippet", "exec")


def test_a_story_with_pictures_of_the_server_has_no_command_line() -> None:
    story = {"shots": [{"prompt": "a", "seconds": 1, "image": "upload:upload_a"}]}
    assert [name for name, _ in story_snippets(story, "http://x", keyed=True)] == ["curl", "Python"]


def test_a_story_that_is_none_is_refused(web: TestClient) -> None:
    answer = web.post("/ui/works/snippets", json={"story": {"shots": []}})
    assert words(answer) == "the story has no shots; give at least one."
