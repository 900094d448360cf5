"""Works: what the studio itself makes of finished clips: figures, a film, a sheet, one frame.

The clips are the server's, fetched with the caller's key into a folder that ends with the answer;
nothing is kept.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chaining.story import parse_story
from demos.ui.api import Api, Refused
from demos.ui.snippets import story_snippets
from demos.ui.together import fidelity, film, one_frame, sheet
from demos.ui.upstream import Upstream
from vidgen.errors import BadRequest, VidgenError
from vidgen.request_names import explain

MOST_CLIPS = 4
MOST_WAITING = 8
_MOST_BYTES = 512 << 20  # of one clip
_BODY_BYTES = 8 << 20  # several times the longest story


class Asked(BaseModel):
    """What a browser asks for.

    clips   ids of finished videos
    labels  what stands above each; by default its id
    frame   of the first clip, counted from 0
    story   to be asked for elsewhere
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    clips: tuple[Annotated[str, Field(pattern=r"^video_[0-9a-z]{1,40}$")], ...] = Field(
        (), max_length=MOST_CLIPS
    )
    labels: tuple[Annotated[str, Field(max_length=300)], ...] = ()
    frame: int = Field(0, ge=0)
    story: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """One thing to be made of clips.

    least  clips that it needs
    make   gets their files, what was asked, and a folder for its own files
    """

    least: int
    make: Callable[[list[Path], Asked, Path], Response]


def _fidelity(files: list[Path], _asked: Asked, _folder: Path) -> Response:
    return JSONResponse({"clips": fidelity(files)})


def _film(files: list[Path], asked: Asked, folder: Path) -> Response:
    film(files, _labels(asked), target := folder / "compare.mp4")
    return _sent(target, "video/mp4")


def _sheet(files: list[Path], asked: Asked, folder: Path) -> Response:
    sheet(files, _labels(asked), target := folder / "compare.png")
    return _sent(target, "image/png")


def _frame(files: list[Path], asked: Asked, folder: Path) -> Response:
    one_frame(files[0], asked.frame, target := folder / f"frame-{asked.frame}.png")
    return _sent(target, "image/png")


WORKS: Mapping[str, Work] = {
    "fidelity": Work(2, _fidelity),
    "film": Work(2, _film),
    "sheet": Work(2, _sheet),
    "frame": Work(1, _frame),
}


class Works:
    """One studio's; of each kind, one is made at a time."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._turns = {name: asyncio.Semaphore(1) for name in WORKS}
        self._waiting = 0

    async def answer(self, name: str, request: Request, key: str | None) -> Response:
        """Answer one call; a refusal has the form of the server's."""
        work = WORKS.get(name)
        if request.method != "POST" or (work is None and name != "snippets"):
            return JSONResponse({"detail": "Not Found"}, 404)
        try:
            asked = await _read(request)
            if work is None:
                return JSONResponse({"snippets": self._snippets(asked.story, key)})
            return await self._made(name, work, asked, Api(self._upstream, key))
        except (Refused, VidgenError) as error:
            found = {"code": "unprocessable", "message": error.message, "param": None}
            return JSONResponse({"error": found}, 422)

    def _snippets(self, fields: dict[str, Any], key: str | None) -> list[tuple[str, str]]:
        story = parse_story(fields).model_dump(mode="json", exclude_unset=True, exclude_none=True)
        return story_snippets(story, self._upstream.address, keyed=key is not None)

    async def _made(self, name: str, work: Work, asked: Asked, api: Api) -> Response:
        if len(asked.clips) < work.least:
            raise BadRequest(f"{len(asked.clips)} clips are named, {work.least} are needed.")
        if self._waiting >= MOST_WAITING:
            raise Refused("The studio is busy with other clips; try again in a moment.")
        self._waiting += 1
        try:
            async with self._turns[name]:
                with TemporaryDirectory(prefix="vidgen-studio-") as folder:
                    files = [await _fetched(api, clip, Path(folder)) for clip in asked.clips]
                    return await asyncio.to_thread(work.make, files, asked, Path(folder))
        finally:
            self._waiting -= 1


async def _read(request: Request) -> Asked:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _BODY_BYTES:
            raise BadRequest(f"The request is larger than {_BODY_BYTES >> 20} MiB.")
    try:
        return Asked.model_validate_json(body)
    except ValidationError as error:
        raise explain(error) from None


async def _fetched(api: Api, clip: str, folder: Path) -> Path:
    """Bring a finished clip here."""
    found = await api.video(clip)
    file = found["variants"].get("video")
    if file is None:
        raise Refused(f"{clip} has no video.")
    if file["bytes"] > _MOST_BYTES:
        raise Refused(f"{clip} has {file['bytes'] >> 20} MiB; the studio takes clips of at most "
                      f"{_MOST_BYTES >> 20} MiB.")  # fmt: skip
    path = folder / f"{clip}.mp4"
    await api.save(clip, path)
    return path


def _labels(asked: Asked) -> list[str]:
    return list(asked.labels if len(asked.labels) == len(asked.clips) else asked.clips)


def _sent(file: Path, kind: str) -> Response:
    told = {
        "Content-Disposition": f'attachment; filename="{file.name}"',
        "Cache-Control": "no-store",
    }
    return Response(file.read_bytes(), media_type=kind, headers=told)
