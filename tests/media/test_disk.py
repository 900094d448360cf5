"""What a new file may replace, and that two runs that write the same name do not meet."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.media.pictures import scene
from vidgen.errors import BadRequest, DoesNotFit
from vidgen.media import VideoWriter, finish_video, probe_video, read_recipe, save_image
from vidgen.media.disk import check_folder


def write(path: Path, **options: Any) -> None:
    with VideoWriter(path, width=32, height=32, fps=Fraction(8), **options) as writer:
        writer.write(np.zeros((3, 32, 32, 3), np.float32))


def by_writer(path: Path, profile: str) -> None:
    write(path, profile=profile)


def by_finishing(path: Path, profile: str) -> None:
    source = path.with_name("source.mp4")
    write(source)
    finish_video(source, path, profile=profile)


@pytest.mark.parametrize("make", [by_writer, by_finishing])
def test_what_stands_at_a_name_is_not_destroyed(
    make: Callable[[Path, str], None], tmp_path: Path
) -> None:
    for name, profile in (("pictures", "png"), ("folder.mp4", "mp4"), ("empty.mp4", "mp4")):
        (tmp_path / name).mkdir()
        if name != "empty.mp4":
            (tmp_path / name / "frame_000001.png").write_bytes(b"precious")
        with pytest.raises(BadRequest, match=name):
            make(tmp_path / name, profile)
        if name != "empty.mp4":
            assert (tmp_path / name / "frame_000001.png").read_bytes() == b"precious"
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(BadRequest, match="is a file"):
        make(tmp_path / "notes.txt", "png")
    assert (tmp_path / "notes.txt").read_text() == "precious"
    (tmp_path / "new").mkdir()
    for _ in range(2):  # an empty folder and frames that were written here may be replaced
        make(tmp_path / "new", "png")
    (tmp_path / "new" / "mine.txt").write_text("precious")
    with pytest.raises(BadRequest, match=r"mine\.txt"):
        make(tmp_path / "new", "png")
    assert not list(tmp_path.rglob("*.part")) + list(tmp_path.rglob("*.old"))


def test_a_still_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(BadRequest, match="folder"):
        save_image(tmp_path / "a.png", scene(1)[0])
    for path in (Path(), Path("/")):
        with pytest.raises(BadRequest, match="give a name in it"):
            write(path, profile="png")


def test_two_writers_of_one_name_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    writers = [
        VideoWriter(path, width=32, height=32, fps=Fraction(8), recipe=json.dumps({"n": number}))
        for number in range(2)
    ]
    for count, writer in enumerate(writers, start=1):
        writer.write(np.zeros((count, 32, 32, 3), np.float32))
    for count, writer in enumerate(writers, start=1):
        writer.close()
        assert probe_video(path).num_frames == count
        assert json.loads(read_recipe(path) or "") == {"n": count - 1}
    assert [item.name for item in tmp_path.iterdir()] == ["a.mp4"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    check_folder(tmp_path / "new" / "one")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DoesNotFit, match="cannot be written"):
        check_folder(tmp_path / "file")
