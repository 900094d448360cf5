"""Extensions: going on with a video that exists, a clip of ours or an upload.

Its end becomes the first clip of a chain, as `chaining.extend` does it; here only the sizes and
lengths are decided.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaining.clip_plan import ClipPlan
from chaining.extend import Original, adjustments
from chaining.lengths import Lengths
from chaining.story import Story
from server.api.planned import Planned
from server.api.planning import Facts, Place, Planner, estimate_of, shape_of
from server.api.stories import (
    Laid,
    clip_facts,
    lay_out,
    read_story,
    shots_adjusted,
    story_model,
)
from server.problems import Problem
from vidgen.media import VideoInfo
from vidgen.models import Model
from vidgen.sizing import legal_size, same_area

_SET = {
    "fps": "the new part has the video's rate",
    "fit": "frames are stretched to the model's size and back",
    "aspect": "give width and height of what the model makes",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A video that is gone on with.

    reference  job:<id> or upload:<id>
    model      that made it, when it is ours
    """

    reference: str
    width: int
    height: int
    num_frames: int
    fps: Fraction
    model: str | None = None

    @classmethod
    def of(cls, reference: str, facts: Mapping[str, Any], model: str | None = None) -> "Source":
        """Read what is known of a video.

        Raises  Problem unprocessable for a picture
        """
        if facts["kind"] != "video" or facts["fps"] is None:
            raise Problem("unprocessable", "video is a picture; give a video.", param="video")
        return cls(
            reference,
            int(facts["width"]),
            int(facts["height"]),
            int(facts["frames"]),
            Fraction(str(facts["fps"])),
            model,
        )

    def original(self) -> Original:
        """Return it as the chain sees it, up to its last frame."""
        info = VideoInfo(
            width=self.width,
            height=self.height,
            fps=self.fps,
            num_frames=self.num_frames,
            duration_seconds=float(self.num_frames / self.fps),
            variable_rate=False,
            rotation=0,
            orientation=1,
            pixel_format="",
            matrix="bt709",
            primaries="bt709",
            transfer="bt709",
            range="tv",
            has_audio=False,
            codec="",
            container="",
            assumptions=(),
        )
        return Original(Path(self.reference), info, self.num_frames)


def plan_extension(
    planner: Planner, new: Story, facts: Mapping[str, Facts], source: Source, place: Place
) -> Planned:
    """Decide every clip that is made to follow a video.

    new     the shots that follow; its request holds what was asked for them
    facts   of the pictures that the shots name
    Raises  Problem
    """
    for name, why in _SET.items():
        if name in new.request:
            raise Problem("unprocessable", f"{name} does not go with an extension: {why}.",
                          param=name)  # fmt: skip
    if new.strategy == "last_latent":
        raise Problem(
            "unprocessable",
            "strategy=last_latent hands latents over and a video has none; use last_frame or "
            "overlap.",
            param="strategy",
        )
    if new.shots[0].transition not in (None, "continue"):
        raise Problem(
            "unprocessable", "The first shot continues the video; leave its transition out.",
            param="shots",
        )  # fmt: skip
    model = planner.devices.model(story_model(new))
    whole = _whole(new, source, model)
    own = {source.reference: {"width": source.width, "height": source.height}}
    laid = lay_out(planner, whole, {**facts, **own}, place, skip=1)
    return _planned(planner, new, source, laid)


def _whole(new: Story, source: Source, model: Model) -> Story:
    """Return the story whose first shot is the video's end."""
    data = new.model_dump(mode="json", exclude_unset=True)
    width, height = _size(new.request, source, model)
    request = {**data.get("request", {}), "width": width, "height": height, "fit": "stretch"}
    request |= {"fps": str(source.fps)}
    most = request.get("num_frames", model.recipe.num_frames)
    original = source.original()
    count = original.num_opening(Lengths.of(model.family, most))
    opening = {
        "prompt": original.prompt,
        "seconds": float(count / source.fps),
        "image": source.reference,
        "strategy": "single",
    }
    first, *others = data["shots"]
    shots = [opening, {**first, "transition": "continue"}, *others]
    return read_story({**data, "request": request, "shots": shots})


def _size(request: dict[str, Any], source: Source, model: Model) -> tuple[int, int]:
    """Return the size that is generated: as asked, as the video was made, or of its shape."""
    if "width" in request and "height" in request:
        return request["width"], request["height"]
    if "width" in request or "height" in request:
        raise Problem(
            "unprocessable", "An extension needs both width and height, or none.", param="width"
        )
    if source.model == model.name:
        size, _ = legal_size(source.width, source.height, model.family, even=False)
        return size.width, size.height
    area = model.recipe.width * model.recipe.height
    return same_area(source.width, source.height, area, model.family)


def _planned(planner: Planner, new: Story, source: Source, laid: Laid) -> Planned:
    first, schedule = laid.first, laid.schedule
    opening, *made = schedule.clips
    factor = planner.factor(first)
    own_rate = Fraction(first.model.recipe.fps)
    made_at = first.size.width, first.size.height
    found = [
        *adjustments(source.original(), made_at, own_rate, first.request.format),
        *(item for item in first.adjustments if item.field not in ("image", "fps")),
        *shots_adjusted(schedule.adjustments, 1),
    ]
    frames = source.num_frames + schedule.num_frames - opening.stop
    decided = shape_of(first) | {
        "width": source.width,
        "height": source.height,
        "num_frames": frames,
        "seconds": round(float(frames / source.fps), 6),
        "seed": schedule.seed,
        "task": first.task,
        "fidelity": first.fidelity,
        "prompt_tokens": str(first.prompt_tokens),
        "adjustments": [item.as_dict() for item in found],
        "warnings": list(first.notes),
        "estimate": estimate_of(laid.cost.seconds, laid.cost.folder, laid.cost.largest, factor),
        "clips": [_clip_facts(clip, opening.stop) for clip in made],
        "shots": len(new.shots),
        "extends_frames": source.num_frames,
    }
    payload = {
        "story": replace_seed(new, schedule.seed),
        "extension": {"video": source.reference, "size": list(made_at)},
    }
    largest = laid.cost.largest.estimate
    return Planned(
        kind="chain",
        payload=payload,
        text=" / ".join(shot.prompt for shot in new.shots),
        model=story_model(new),
        loras=tuple(str(item["path"]) for item in new.request.get("loras", ())),
        clips=len(made),
        tokens=largest.tokens,
        cost_seconds=laid.cost.seconds.middle * factor,
        device_bytes=int(largest.device_bytes.low),
        disk_bytes=int(laid.cost.folder.high + laid.cost.video.high),
        decided=decided,
    )


def _clip_facts(clip: ClipPlan, before: int) -> dict[str, Any]:
    """Return what clients see of a new clip; clips, shots and frames count from the video's end on.

    before  frames of the chain that are the video's
    """
    found = clip_facts(clip)
    previous = clip.previous or None  # what follows the video itself follows no clip of the job
    return found | {
        "index": clip.index - 1,
        "place": max(-1, clip.place - 1),
        "shot": clip.shot - 1,
        "previous": None if previous is None else previous - 1,
        "start": found["start"] - before,
        "stop": found["stop"] - before,
    }


def replace_seed(story: Story, seed: int) -> dict[str, Any]:
    """Return a story's data with its seed fixed."""
    return story.model_dump(mode="json", exclude_unset=True) | {"seed": seed}
