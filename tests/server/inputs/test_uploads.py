"""Uploads and references: what comes in, who may use it, and what a worker gets."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from chaining.controls import Controls, Handover
from chaining.story import Shot, Story
from server.ids import new_id
from server.inputs import bring_inputs
from server.inputs.fields import FILE_FIELDS
from server.problems import Problem
from server.queue.sealed import seal
from server.settings import ServerSettings
from tests.server.inputs.desk import Desk
from tests.server.inputs.files import png, video
from tests.server.inputs.web import body, web
from vidgen.request import VideoRequest
from vidgen.request_values import LoraSpec


def refused(code: str, function: Any, *arguments: Any, **named: Any) -> Problem:
    with pytest.raises(Problem) as caught:
        function(*arguments, **named)
    assert caught.value.code == code, caught.value.message
    return caught.value


def data_url(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode()


def request(**fields: Any) -> dict[str, Any]:
    return {"request": {"prompt": "x", **fields}}


def test_life_of_an_upload(desk: Desk, tmp_path: Path) -> None:
    made = desk.uploads.add("a", "../../etc/cat picture.png", io.BytesIO(png()))
    assert made.filename == "cat picture.png"
    assert (made.facts.width, made.facts.height, made.media_type) == (64, 48, "image/png")
    assert b"".join(desk.store.get_range(made.key)) == png()
    assert made.expires_at == desk.scene.clock.now + 86400
    assert desk.uploads.get(made.id, "a") == made
    refused("not_found", desk.uploads.get, made.id, "b")
    refused("not_found", desk.uploads.remove, made.id, "b")
    assert [found.id for found in desk.uploads.page("a")[0]] == [made.id]
    assert desk.uploads.page("b") == ([], False)
    assert list((tmp_path / "work" / "incoming").iterdir()) == []
    desk.scene.clock.forward(86401)
    refused("not_found", desk.uploads.get, made.id, "a")
    desk.uploads.remove(made.id, "a")
    assert list(desk.store.keys("uploads/")) == []


def test_refused_uploads_leave_nothing(desk: Desk, tmp_path: Path) -> None:
    small = desk.with_settings(upload_max_mib=1)
    read: list[int] = []

    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            read.append(size)
            return b"\x89PNG" * (size // 4)

    problem = refused("input_too_large", small.add, "a", "big.png", Endless(), param="image")
    assert (problem.param, "1 MiB" in problem.message) == ("image", True)
    assert sum(read) < 4 << 20
    refused(
        "unsupported_media", desk.uploads.add, "a", "x.svg", io.BytesIO(b"<svg/>"), param="mask"
    )
    refused("unsupported_media", desk.uploads.add, "a", "x.png", io.BytesIO(b""))
    full = desk.with_settings(disk_reserve_mib=1 << 40)
    refused("storage_full", full.add, "a", "x.png", io.BytesIO(png()))
    assert desk.rows() == 0
    assert list(desk.store.keys("uploads/")) == []
    assert list((tmp_path / "work" / "incoming").iterdir()) == []


def test_unknown_tenant_leaves_no_file(desk: Desk) -> None:
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        desk.add(png(), tenant="nobody")
    assert list(desk.store.keys("uploads/")) == []


def test_every_kind_of_reference(desk: Desk, tmp_path: Path) -> None:
    picture = desk.add(png())
    clip = desk.add(video(tmp_path / "made"), "clip.mp4")
    job = desk.finished()
    inline = data_url(png(8, 8))
    found = desk.resolve(
        request(image_path=inline, last_image=picture, video=f"upload:{clip}", mask=job.id,
                reference_images=[f"job:{job.id}", inline])
    )["request"]  # fmt: skip
    assert found["last_image"] == f"upload:{picture}"
    assert found["video"] == f"upload:{clip}"
    assert found["mask"] == f"job:{job.id}"
    assert found["image"].startswith("upload:upload_")
    folder = tmp_path / "inputs"
    brought = bring_inputs({"request": found}, desk.scene.db, desk.store, folder)["request"]
    assert Path(brought["image"]).read_bytes() == png(8, 8)
    assert Path(brought["last_image"]).read_bytes() == png()
    assert Path(brought["video"]).suffix == ".mp4"
    assert Path(brought["mask"]).read_bytes() == b"the video"
    assert Path(brought["reference_images"][0]).read_bytes() == b"the frame"
    assert all(Path(brought[name]).parent == folder for name in ("image", "video", "mask"))
    again = bring_inputs({"request": found}, desk.scene.db, desk.store, folder)["request"]
    assert again == brought


def test_story(desk: Desk, tmp_path: Path) -> None:
    story = {
        "shots": [
            {"prompt": "x", "seconds": 1, "image": data_url(png(8, 8))},
            {"prompt": "y", "seconds": 1, "last_image": data_url(png(9, 9))},
        ],
        "end_image": data_url(png(10, 10)),
        "request": {"reference_images": [data_url(png(11, 11))], "model": "toyworld"},
    }
    found = desk.resolve({"story": story})
    brought = bring_inputs(found, desk.scene.db, desk.store, tmp_path / "in")["story"]
    assert Path(brought["shots"][0]["image"]).read_bytes() == png(8, 8)
    assert Path(brought["shots"][1]["last_image"]).read_bytes() == png(9, 9)
    assert Path(brought["end_image"]).read_bytes() == png(10, 10)
    assert Path(brought["request"]["reference_images"][0]).read_bytes() == png(11, 11)
    story["shots"][1]["last_image"] = "/etc/passwd"  # type: ignore[index]
    problem = refused("invalid_request", desk.resolve, {"story": story})
    assert problem.param == "shots.1.last_image"


NONE = (
    "/etc/passwd", "cat.png", "../store/uploads/x", "file:///etc/passwd", "http://x.example/a.png",
    "s3://bucket/x", "data:,x", "data:text/html;base64,eHg=", "data:image/png;base64,%%%",
    "data:image/png,abc", "upload:../x", "job:x", "\\\\host\\share", "~/x.png", "-", "upload:",
    "https:/x", " https://x.example/",
)  # fmt: skip


def test_what_is_no_reference(desk: Desk) -> None:
    for value in NONE:
        for field in ("image", "image_path", "input_reference", "video"):
            problem = refused("invalid_request", desk.resolve, request(**{field: value}))
            assert problem.param == ("video" if field == "video" else "image")
    assert desk.rows() == 0


def test_what_others_have_or_is_gone(desk: Desk) -> None:
    theirs = desk.add(png(), tenant="b")
    refused("not_found", desk.resolve, request(image=f"upload:{theirs}"))
    refused("not_found", desk.resolve, request(image=new_id("upload")))
    refused("not_found", desk.resolve, request(image=new_id("video")))
    job = desk.finished(tenant="b")
    refused("not_found", desk.resolve, request(image=job.id))
    refused("gone", desk.resolve, request(image=desk.finished(zdr=True).id))
    expired = desk.finished(retention_seconds=60)
    waiting = desk.scene.ask()
    refused("conflict", desk.resolve, request(video=waiting.id))
    desk.scene.clock.forward(61)
    refused("gone", desk.resolve, request(image=expired.id))


def test_kinds_are_checked_and_nothing_stays(desk: Desk, tmp_path: Path) -> None:
    clip = desk.add(video(tmp_path / "made"), "clip.mp4")
    picture = desk.add(png())
    problem = refused("unprocessable", desk.resolve, request(image=clip))
    assert "clip.mp4 is a video" in problem.message
    refused("unprocessable", desk.resolve, request(video=picture))
    refused("unprocessable", desk.resolve, request(last_image=data_url(png()), video=picture))
    refused("unsupported_media", desk.resolve, request(image=data_url(b"<svg/>")))
    assert desk.rows() == 2
    desk.resolve(request(video=clip, mask=picture))


def test_uploads_in_use_are_kept_longer(desk: Desk) -> None:
    used, zdr_used, looked_at = desk.add(png()), desk.add(png()), desk.add(png())
    desk.scene.ask(payload=desk.resolve(request(image=used)), inputs=(used,))
    cipher, secret = seal(desk.resolve(request(image=zdr_used)))
    desk.scene.ask(zdr=True, payload=None, cipher=cipher, secret=secret, inputs=(zdr_used,))
    desk.resolve(request(image=looked_at))
    desk.scene.clock.forward(86401)
    desk.uploads.get(used, "a")
    for gone in (zdr_used, looked_at):
        refused("not_found", desk.uploads.get, gone, "a")


def test_a_job_is_not_made_of_an_upload_that_has_just_gone(desk: Desk) -> None:
    mine, theirs = desk.add(png()), desk.add(png(), tenant="b")
    job = desk.scene.ask()
    desk.uploads.remove(mine, "a")
    for upload in (mine, theirs, new_id("upload")):
        refused("not_found", desk.scene.ask, inputs=(upload,))
        refused("not_found", desk.scene.jobs.edit, job.id, {}, "a", inputs=(upload,))
    assert len(desk.scene.jobs.page("a").jobs) == 1


def test_urls(desk: Desk, tmp_path: Path) -> None:
    with web(tmp_path) as site:
        site.pages["/cat.png"] = body(png(12, 12))
        site.pages["/page"] = body(b"<html></html>")
        named = request(image=site.url("/cat.png"))
        refused("invalid_request", desk.resolve, named, rules=site.rules())
        on = {"settings": desk.scene.settings.model_copy(update={"url_fetch": True})}
        found = desk.resolve(named, rules=site.rules(), **on)["request"]["image"]
        upload = desk.uploads.get(found.removeprefix("upload:"), "a")
        assert (upload.facts.width, upload.filename) == (12, "cat.png")
        page = request(image=site.url("/page"))
        refused("unsupported_media", desk.resolve, page, rules=site.rules(), **on)
        refused("invalid_request", desk.resolve, request(image="https://127.0.0.1/"), **on)
    assert desk.rows() == 1


def test_models_loras_and_budgets(desk: Desk, tmp_path: Path) -> None:
    for model in ("toyworld", "wan2.1-t2v-1.3b", "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", "me/my.model"):
        assert desk.resolve(request(model=model))["request"]["model"] == model
    for model in ("/srv/model", "../x", "~/x", "./x/y", "a/../b", "server/api", "a/b/c", "nosuch"):
        assert refused("unsupported_model", desk.resolve, request(model=model)).param == "model"
    for budgets in ("/x/budgets.json", "x.json", ""):
        problem = refused("invalid_request", desk.resolve, request(budgets=budgets))
        assert problem.param == "budgets"
    refused("invalid_request", desk.resolve, request(loras=["style"]))
    folder = tmp_path / "loras"
    folder.mkdir()
    (folder / "style.v2.safetensors").write_bytes(b"")
    (tmp_path / "secret.safetensors").write_bytes(b"")
    settings = ServerSettings(lora_folder=str(folder))
    whole = str(folder / "style.v2.safetensors")
    for lora in ("style.v2:0.8", "style.v2.safetensors:0.8", {"path": whole, "weight": 0.8}):
        found = desk.resolve(request(loras=[lora]), settings=settings)["request"]["loras"]
        assert found == [{"path": whole, "weight": 0.8, "target": "both"}]
    for lora in ("../secret", "/etc/passwd", "..", "", {"path": f"{folder}/../secret"}, "other"):
        problem = refused("invalid_request", desk.resolve, request(loras=[lora]), settings=settings)
        assert problem.param == "loras"


def test_every_text_field_is_known_to_hold_a_file_or_none() -> None:
    """A new field that holds a path would be read from the server's own disk."""
    no_files = {
        "prompt", "negative_prompt", "alpha_background", "aspect", "request",
        *("model", "budgets", "path"),  # looked at by settle_names
    }  # fmt: skip
    declared = (VideoRequest, LoraSpec, Story, Shot, Handover, Controls)
    found = {
        name
        for model in declared
        for name, info in model.model_fields.items()
        if {str, Any} & set(_leaves(info.annotation))
    }
    assert found == no_files | set(FILE_FIELDS)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield the types that a field's values are made of, but for words of a list."""
    if get_origin(annotation) is Literal:
        return
    inner = get_args(annotation)
    for item in inner[:1] if get_origin(annotation) is Annotated else inner:
        yield from _leaves(item)
    if not inner:
        yield annotation


def test_inputs_that_vanished(desk: Desk, tmp_path: Path) -> None:
    upload, job = desk.add(png()), desk.finished()
    resolved = desk.resolve(request(image=upload, mask=job.id))
    desk.uploads.remove(upload, "a")
    bring = (desk.scene.db, desk.store, tmp_path / "in")
    assert refused("input_fetch_failed", bring_inputs, resolved, *bring).param == "image"
    desk.store.delete_prefix(f"jobs/{job.id}/")
    rest = {"request": {"mask": resolved["request"]["mask"]}}
    assert refused("input_fetch_failed", bring_inputs, rest, *bring).param == "mask"
