"""The story of a job that goes on with a video: the video's end is its first clip."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaining.extend import Original, open_original
from chaining.lengths import Lengths
from chaining.story import Story, parse_story
from server.inputs.names import model_of
from vidgen.media import save_image
from vidgen.models import resolve


@dataclass(frozen=True, slots=True)
class Continued:
    """A video, and the story of which its end is the first shot."""

    original: Original
    story: Story


def continued(new: Story, video: Path, size: tuple[int, int]) -> Continued:
    """Return what goes on with a video.

    new     the shots that follow
    size    width and height that the model makes
    Raises  BadRequest, BadMedia, Unsupported
    """
    original = open_original(video)
    start = video.with_name(f"{video.name}.start.png")
    if not start.exists():
        save_image(start, original.last_frame(), deep=True)
    data: dict[str, Any] = new.model_dump(mode="json", exclude_unset=True)
    first, *others = data["shots"]
    request = {**data.get("request", {}), "width": size[0], "height": size[1], "fit": "stretch"}
    request["fps"] = str(original.info.fps)
    model = resolve(model_of(request))
    most = request.get("num_frames", model.recipe.num_frames)
    count = original.num_opening(Lengths.of(model.family, most))
    opening = {
        "prompt": original.prompt,
        "seconds": float(count / original.info.fps),
        "image": str(start),
        "strategy": "single",
    }
    shots = [opening, {**first, "transition": "continue"}, *others]
    return Continued(original, parse_story({**data, "request": request, "shots": shots}))
