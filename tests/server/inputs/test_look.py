"""Looking into files: right facts, or one sentence; whatever it is, the caller lives on."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from PIL import Image, PngImagePlugin

from server.inputs import look as look_module
from server.inputs.child import MAX_LOOKS
from server.inputs.look import Looker
from server.problems import Problem
from tests.server.inputs.files import encoded, gif, ico, png, raw_png, squeezed, video

PIXELS = 33_000_000


@contextlib.contextmanager
def fresh(**options: int) -> Iterator[tuple[Looker, psutil.Process]]:
    """Run a looker of its own and give it with its child."""
    before = psutil.Process().children()
    running = Looker(**options)
    try:
        running.start()
        (child,) = (found for found in psutil.Process().children() if found not in before)
        yield running, child
    finally:
        running.close()
    assert psutil.Process().children() == before


def look(
    looker: Looker, folder: Path, content: bytes, name: str = "input.bin"
) -> dict[str, object]:
    path = folder / "in_x.spool"
    path.write_bytes(content)
    return looker.look(path, name, PIXELS).as_dict()


def refused(looker: Looker, folder: Path, content: bytes, name: str = "input.bin") -> Problem:
    with pytest.raises(Problem) as caught:
        look(looker, folder, content, name)
    message = caught.value.message
    assert name in message
    assert message.endswith(".")
    assert "spool" not in message
    assert str(folder) not in message
    assert len(message) < 400
    return caught.value


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp"), ("GIF", "image/gif"),
     ("BMP", "image/bmp"), ("TIFF", "image/tiff"), ("AVIF", "image/avif"),
     ("JPEG2000", "image/jp2"), ("ICO", "image/x-icon"), ("HEIF", "image/heic")],
)  # fmt: skip
def test_pictures(looker: Looker, tmp_path: Path, kind: str, media_type: str) -> None:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    options = {"sizes": [(64, 48)]} if kind == "ICO" else {}
    found = look(looker, tmp_path, encoded(Image.new("RGB", (64, 48), "red"), kind, **options))
    assert found == {
        "kind": "image", "media_type": media_type, "width": 64, "height": 48, "frames": 1,
        "fps": None,
    }  # fmt: skip


def test_recipe_inside(looker: Looker, tmp_path: Path) -> None:
    """Of what Vidgen made itself; other files have none, whatever their kind."""
    notes = PngImagePlugin.PngInfo()
    notes.add_text("vidgen", '{"request": {"prompt": "a red ball"}}')
    content = encoded(Image.new("RGB", (64, 48)), "PNG", pnginfo=notes)
    assert look(looker, tmp_path, content)["recipe"] == '{"request": {"prompt": "a red ball"}}'
    assert "recipe" not in look(looker, tmp_path, video(tmp_path / "made"))


def test_turned_picture(looker: Looker, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    found = look(looker, tmp_path, encoded(Image.new("RGB", (64, 48)), "JPEG", exif=exif))
    assert (found["width"], found["height"]) == (48, 64)


def test_animations(looker: Looker, tmp_path: Path) -> None:
    frames = [Image.new("RGB", (32, 16), colour) for colour in ("red", "green", "blue")]
    for kind in ("GIF", "WEBP", "PNG"):
        content = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
        found = look(looker, tmp_path, content)
        assert (found["kind"], found["frames"], found["width"]) == ("image", 3, 32)


def test_videos_by_content_not_by_name(looker: Looker, tmp_path: Path) -> None:
    mp4 = video(tmp_path / "made")
    assert look(looker, tmp_path, mp4, "holiday.png") == {
        "kind": "video", "media_type": "video/mp4", "width": 64, "height": 48, "frames": 5,
        "fps": "8",
    }  # fmt: skip
    found = look(looker, tmp_path, png(), "clip.mp4")
    assert (found["kind"], found["media_type"]) == ("image", "image/png")


@pytest.mark.parametrize(
    "content",
    [b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
     b"<?xml version='1.0'?><svg/>", b"<!DOCTYPE html><script>alert(1)</script>", b"GIF", b"x",
     b"%PDF-1.7\n", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"#EXTM3U\nhttp://10.0.0.1/x.ts\n",
     b"ffconcat version 1.0\nfile /etc/passwd\n", b"PK\x03\x04" + bytes(100), bytes(1000),
     b"\x7fELF" + bytes(100), b"\xd7\xcd\xc6\x9a" + bytes(100)],
)  # fmt: skip
def test_what_is_neither(looker: Looker, tmp_path: Path, content: bytes) -> None:
    assert refused(looker, tmp_path, content, "logo.png").code == "unsupported_media"


def test_polyglots_are_what_they_begin_with(looker: Looker, tmp_path: Path) -> None:
    script = b"<script>alert(1)</script>"
    found = look(looker, tmp_path, png() + script, "x.html")
    assert (found["media_type"], found["width"]) == ("image/png", 64)
    still = encoded(Image.new("P", (9, 7)), "GIF")
    found = look(looker, tmp_path, still + b"PK\x03\x04" + script, "x.zip")
    assert (found["media_type"], found["width"], found["frames"]) == ("image/gif", 9, 1)


def test_damage(looker: Looker, tmp_path: Path) -> None:
    noise = Image.effect_noise((200, 200), 90)
    mp4 = video(tmp_path / "made", frames=20)
    damaged = {
        "cut.png": encoded(noise, "PNG")[:9000],
        "cut.jpg": encoded(noise, "JPEG")[:4000],
        "cut.webp": encoded(noise, "WEBP")[:2000],
        "cut.tif": encoded(noise, "TIFF")[:9000],
        "cut.mp4": mp4[: len(mp4) // 2],
        "head.png": b"\x89PNG\r\n\x1a\n",
        "head.jpg": b"\xff\xd8\xff\xe0",
        "head.gif": b"GIF89a\x00",
        "head.mp4": b"\x00\x00\x00\x18ftypisom" + bytes(100),
        "head.webm": b"\x1a\x45\xdf\xa3" + bytes(100),
        "head.avif": b"\x00\x00\x00\x18ftypavif" + bytes(100),
        "head.heic": b"\x00\x00\x00\x18ftypheic" + bytes(100),
        "no pixels.png": raw_png(0, 0, squeezed(0)),
        "wrong.jpg": b"\xff\xd8\xff" + os.urandom(5000),
    }
    for name, content in damaged.items():
        assert refused(looker, tmp_path, content, name).code in (
            "unsupported_media", "input_too_large"
        )  # fmt: skip


def bombs() -> dict[str, bytes]:
    return {
        "claims.png": raw_png(30000, 30000, b"\0" * 50_000),
        "real.png": raw_png(30000, 30000, squeezed(30000 * 3751)),
        "wide.png": raw_png(2**31 - 1, 1, squeezed(1 << 20)),
        "text.png": raw_png(8, 8, squeezed(16), (b"zTXt", b"a\0\0" + squeezed(200 << 20))),
        "screen.gif": gif(65535, 65535, 1),
        "frame.gif": gif(1, 1, 2, 65535, 65535),
        "inside.ico": ico(raw_png(30000, 30000, squeezed(30000 * 3751))),
        "frames.gif": gif(5000, 5000, 20_000),
    }


def test_bombs(looker: Looker, tmp_path: Path) -> None:
    """Refused, or right facts where Pillow itself stays small; the caller does not grow."""
    made = bombs()
    look(looker, tmp_path, png())
    before = psutil.Process().memory_info().rss
    for name in ("claims.png", "real.png", "wide.png", "screen.gif", "frame.gif", "inside.ico"):
        assert refused(looker, tmp_path, made[name], name).code == "input_too_large"
    for name in ("text.png", "frames.gif"):
        try:
            found = look(looker, tmp_path, made[name], name)
        except Problem as problem:
            assert problem.code == "unsupported_media"
        else:
            assert found["media_type"] == f"image/{name[-3:]}"
    assert len(made["claims.png"]) < 51_000
    assert psutil.Process().memory_info().rss - before < 50e6
    assert look(looker, tmp_path, png())["width"] == 64


def test_large_frames_of_a_video(looker: Looker, tmp_path: Path) -> None:
    big = video(tmp_path / "made", frames=1, width=640, height=480)
    path = tmp_path / "in_x.spool"
    path.write_bytes(big)
    with pytest.raises(Problem, match="640x480") as caught:
        looker.look(path, "big.mp4", 100_000)
    assert caught.value.code == "input_too_large"


@pytest.mark.slow
def test_time_is_bounded(tmp_path: Path) -> None:
    with fresh(seconds=1) as (looker, _):
        problem = refused(looker, tmp_path, gif(10, 10, 1_500_000), "long.gif")
        assert "takes more than 1 s" in problem.message
        assert look(looker, tmp_path, png())["width"] == 64


def test_memory_is_bounded(tmp_path: Path) -> None:
    with fresh(memory_bytes=64 << 20) as (looker, _):
        look(looker, tmp_path, raw_png(8000, 4000, squeezed(4 << 20)))  # 32 MB of grey
        wide = raw_png(16000, 6000, squeezed(12 << 20))  # 96 MB
        path = tmp_path / "in_x.spool"
        path.write_bytes(wide)
        with pytest.raises(Problem, match="memory") as caught:
            looker.look(path, "wide.png", 100_000_000)
        assert caught.value.code == "unsupported_media"
        assert look(looker, tmp_path, png())["width"] == 64


def test_child_that_died_is_replaced(tmp_path: Path) -> None:
    with fresh() as (looker, child):
        child.kill()
        assert look(looker, tmp_path, png())["width"] == 64
        assert not child.is_running()


def test_child_that_hangs_is_replaced(tmp_path: Path) -> None:
    with fresh(seconds=1) as (looker, child):
        child.suspend()
        refused(looker, tmp_path, png())
        assert look(looker, tmp_path, png())["width"] == 64


@pytest.mark.slow
def test_child_ends_after_many_looks_and_none_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_module, "_DEAD_SECONDS", -1)  # no second try hides a first failure
    with fresh() as (looker, child):
        for _ in range(MAX_LOOKS + 1):
            assert look(looker, tmp_path, png(8, 8))["width"] == 8
        assert not child.is_running()


def test_child_gets_no_secrets_and_writes_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    with fresh() as (_, child):
        assert "AWS_SECRET_ACCESS_KEY" not in child.environ()
        assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert child.rlimit(psutil.RLIMIT_AS)[1] < 4 << 30


def test_the_caller_imports_no_decoder() -> None:
    code = (
        "import sys, server.inputs.uploads, server.inputs.references, server.inputs.bring;"
        "import server.webhooks.deliver, server.keeping, server.store;"
        "bad = {'PIL', 'av', 'numpy', 'torch', 'diffusers'} & set(sys.modules);"
        "sys.exit(' '.join(bad) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
