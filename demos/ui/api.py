"""Api: the part of the server's API that the form needs, typed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from demos.ui.upstream import Upstream


class Refused(Exception):
    """What the server said no to, in its own words.

    code  of the server's, empty where the studio itself says no
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Api:
    """One server as one caller."""

    def __init__(self, upstream: Upstream, key: str | None) -> None:
        self._upstream = upstream
        self._key = key

    async def estimate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a request would become and cost.

        Raises  Refused
        """
        return await self._json("POST", "/v1/videos/estimate", dict(fields))

    async def create(self, fields: Mapping[str, Any], click: str) -> dict[str, Any]:
        """Make a job; the same click makes no second one.

        Raises  Refused
        """
        return await self._json("POST", "/v1/videos", dict(fields), click)

    async def change(self, video: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Change what a waiting job will make.

        Raises  Refused
        """
        return await self._json("PATCH", f"/v1/videos/{quote(video, safe='')}", dict(fields))

    async def video(self, video: str) -> dict[str, Any]:
        """Look at a job.

        Raises  Refused
        """
        return await self._json("GET", f"/v1/videos/{quote(video, safe='')}")

    async def save(self, video: str, target: Path) -> None:
        """Write the film of a finished job into a file.

        Raises  Refused
        """
        path = f"/v1/videos/{quote(video, safe='')}/content"
        try:
            answer = await self._upstream.save(path, self._key, target)
        except httpx.TransportError:
            raise _away() from None
        if not answer.is_success:
            raise _refusal(answer.json())

    async def recipe(self, upload: str) -> dict[str, Any]:
        """Return the recipe inside an upload.

        Raises  Refused for a file that carries none
        """
        return await self._json("GET", f"/v1/uploads/{quote(upload, safe='')}/recipe")

    async def _json(
        self, method: str, path: str, data: dict[str, Any] | None = None, click: str = ""
    ) -> dict[str, Any]:
        try:
            answer = await self._upstream.call(method, path, self._key, data, click=click)
            found = answer.json()
        except UnicodeEncodeError:
            raise Refused(
                "A text holds half of a character, perhaps of an emoji; delete it and type it "
                "again."
            ) from None
        except (httpx.TransportError, ValueError):
            raise _away() from None
        if answer.is_success:
            return dict(found)
        raise _refusal(found)


def _away() -> Refused:
    return Refused("The server does not answer; is it running?")


def _refusal(found: Mapping[str, Any]) -> Refused:
    error = found["error"]
    return Refused(str(error["message"]), str(error.get("code") or ""))
