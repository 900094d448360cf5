"""What a server holds when the document is held against it: jobs in every state, uploads, keys."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from PIL import Image

from server.queue.keys import create_key
from tests.server.api.site import story
from tests.server.worker.floor import Floor

HOOK = {  # nobody listens there
    "name": "n", "url": "http://127.0.0.1:9/hook", "event_types": ["video.completed"],
}  # fmt: skip


@dataclass(frozen=True)
class Stock:
    """Ids by the name of the path parameter that takes them.

    known      by parameter
    own     by operation and parameter, where it may not have all: what it uses up or waits for
    bodies  that are good, by operation, where chance alone finds none
    """

    known: Mapping[str, Sequence[str]]
    own: Mapping[str, Mapping[str, Sequence[str]]]
    bodies: Mapping[str, Mapping[str, Any]]

    def place(self, operation: str, parameters: dict[str, Any], turn: int) -> None:
        """Name what there is, one after another; in every fourth turn leave what was drawn."""
        own = self.own.get(operation, {})
        for name in parameters if turn % 4 != 3 else ():
            ids = own.get(name, self.known.get(name, ()))
            if ids:
                parameters[name] = ids[turn % len(ids)]

    def body(self, operation: str, drawn: Any, turn: int) -> Any:
        """Return a good body in every third turn, else the one that was drawn."""
        good = isinstance(drawn, dict) and turn % 3 == 0
        return self.bodies.get(operation, drawn) if good else drawn


def png() -> bytes:
    """Return a small picture."""
    buffer = io.BytesIO()
    Image.new("RGB", (96, 96), (200, 30, 30)).save(buffer, "png")
    return buffer.getvalue()


def work(floor: Floor) -> None:
    """Make all that waits."""
    while (runner := floor.claimed()) is not None:
        runner.run()


def stocked(floor: Floor, http: httpx.Client) -> Stock:
    """Fill a server and return what there is."""

    def created(path: str, **body: Any) -> str:
        answer = http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def several(path: str, count: int, **body: Any) -> list[str]:
        return [created(path, **{**body, "title": f"{number}"}) for number in range(count)]

    assert floor.claimed() is None  # now there is a worker
    videos = "/v1/videos"
    clips = several(videos, 3, prompt="a ball")
    chains = several(videos, 2, story=story("a", "b"))
    failed = several(videos, 1, prompt="error@0=9")
    boards = several("/v1/storyboards", 2, **story("a", "b", "c"))
    work(floor)
    stale = created(f"/v1/storyboards/{boards[0]}/cards/1/reroll", prompt="d")
    work(floor)
    waiting = several(videos, 9, prompt="a ball")
    paused = several(videos, 2, prompt="a ball", hold=True)
    held, lost = waiting[5:7], waiting[7:]
    for video in held:
        assert http.post(f"{videos}/{video}/hold").status_code == 200
    uploads = [
        http.post("/v1/uploads", files={"file": ("a.png", png(), "image/png")}).json()["id"]
        for _ in range(4)
    ]
    hooks = [created("/v1/webhook_endpoints", **HOOK) for _ in range(4)]
    keys = [create_key(floor.db, "other", "spare", ["read"])[0].id for _ in range(3)]
    ended = [*clips, *chains, *failed]
    return Stock(
        known={
            "video_id": [*ended, *waiting[:7], *paused],
            "board_id": [*boards, stale],
            "upload_id": uploads[:3],
            "endpoint_id": hooks[:3],
            "key_id": keys,
            "tenant": ["other"],
            "model": ["toyworld"],
            "card": ["0", "1"],
            "number": ["0", "1"],
        },
        own={
            "deleteVideo": {"video_id": lost},
            "deleteUpload": {"upload_id": uploads[3:]},
            "deleteWebhookEndpoint": {"endpoint_id": hooks[3:]},
            "getContent": {"video_id": ended},  # of others it would wait for clips
            "getVideoEvents": {"video_id": ended},
            "renderStoryboard": {"board_id": [stale]},
            # First one in the right state, then one in a wrong one.
            "changeVideo": {"video_id": [waiting[0], clips[0]]},
            "pauseVideo": {"video_id": [waiting[1], clips[0]]},
            "cancelVideo": {"video_id": [waiting[2], clips[0]]},
            "holdVideo": {"video_id": [waiting[3], clips[0]]},
            "moveVideo": {"video_id": [waiting[4], clips[0]]},
            "releaseVideo": {"video_id": [*held, clips[0]]},
            "resumeVideo": {"video_id": [*paused, clips[0]]},
            "retryVideo": {"video_id": [*failed, clips[0]]},
            "headContent": {"video_id": [clips[0], *paused]},
        },
        bodies={
            **{f"{verb}Video": {"prompt": "a cube"}
               for verb in ("create", "estimate", "change", "remix", "fork")},
            "createStoryboard": story("a"),
            "createWebhookEndpoint": HOOK,
            "extendVideo": {"video": chains[0], "prompt": "c", "seconds": 1},
            "moveVideo": {"to": "first"},
        },
    )  # fmt: skip
