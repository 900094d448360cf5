"""The shape of a clip (size, frames, rate) that a request and its inputs mean."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from attention import Grid
from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest
from vidgen.families import Family, Task
from vidgen.inputs import Inputs
from vidgen.media.profiles import PROFILES
from vidgen.models import Model
from vidgen.request import VideoRequest
from vidgen.request_names import ratio_of
from vidgen.sizing import Size, frames_for, legal_frames, legal_size, same_area

if TYPE_CHECKING:
    from vidgen.media.fit import Fit

SIZE_MARGIN = 1.1  # a model copes with a little more than it has seen
SMALL_CUT = 0.02  # of a picture, to bring it to a legal size of nearly its own shape


@dataclass(frozen=True, slots=True)
class Shape:
    """Size, frames and rate of a clip.

    prefix_frames  frames at the start that are given
    fit            how inputs are brought to the size
    notes          one sentence each; not deviations
    """

    size: Size
    num_frames: int
    fps: Fraction
    prefix_frames: int
    fit: "Fit"
    notes: tuple[str, ...]


def choose_shape(
    request: VideoRequest, inputs: Inputs, task: Task, model: Model, found: list[Adjustment]
) -> Shape:
    """Return the clip's size, frame count and rate; deviations are appended to `found`.

    Raises  BadRequest for what cannot be brought to a legal shape
    """
    family = model.family
    size, fit = _size(request, inputs, model, found)
    notes = _explain_fit(
        inputs,
        size,
        fit,
        asked=request.width is not None or request.aspect is not None,
        found=found,
    )
    fps = _fps(request, inputs, task, model)
    num_frames = _num_frames(request, inputs, task, model, fps, found)
    prefix = _prefix(request, inputs, num_frames, family, fps, found)
    _explain_rate(request, inputs, num_frames, fps, task, model, found)
    notes += _untrained(size, num_frames, model)
    return Shape(size, num_frames, fps, prefix, fit, tuple(notes))


def _size(
    request: VideoRequest, inputs: Inputs, model: Model, found: list[Adjustment]
) -> "tuple[Size, Fit]":
    family, recipe = model.family, model.recipe
    width, height = request.width, request.height
    source = next(iter(inputs.sizes.values()), None)
    shaped = width is not None or height is not None or request.aspect is not None
    if request.fit == "adaptive" and shaped:
        raise BadRequest(
            "fit=adaptive takes the size from the input; leave width, height and aspect out, "
            "or use crop, letterbox or stretch.",
            field="fit",
        )
    fit: Fit = "crop" if request.fit is None or request.fit == "adaptive" else request.fit
    if width is None and height is None:
        if request.aspect is not None:
            ratio = ratio_of(request.aspect)
            area = recipe.width * recipe.height
            width, height = same_area(ratio.numerator, ratio.denominator, area, family)
            _explain_aspect(request.aspect, ratio, width, height, found)
        elif source is not None and request.fit in (None, "adaptive"):
            width, height = same_area(*source, recipe.width * recipe.height, family)
        else:
            width, height = recipe.width, recipe.height
        return Size(width, height, width, height), fit
    across, down = family.size_multiple
    ratio = Fraction(*source) if source else Fraction(recipe.width, recipe.height)
    if width is None:
        assert height is not None
        width = max(across, round(height * ratio / across) * across)
    elif height is None:
        height = max(down, round(width / ratio / down) * down)
    size, changes = legal_size(width, height, family, even=PROFILES[request.format].even)
    found.extend(changes)
    return size, fit


def _explain_aspect(
    asked: str, ratio: Fraction, width: int, height: int, found: list[Adjustment]
) -> None:
    if abs(width / height / ratio - 1) > SMALL_CUT:
        why = "the legal size nearest to that shape, at about the model's number of pixels"
        found.append(Adjustment("aspect", asked, f"{width}x{height}", why))


def _explain_fit(
    inputs: Inputs, size: Size, fit: "Fit", *, asked: bool, found: list[Adjustment]
) -> list[str]:
    """Say what every input loses; a sliver, where the size was ours to choose, is only a note."""
    sizes = inputs.sizes
    if "mask" in sizes and sizes["mask"] != sizes["video"]:
        raise BadRequest(
            f"The mask is {sizes['mask'][0]}x{sizes['mask'][1]}, the video "
            f"{sizes['video'][0]}x{sizes['video'][1]}; make them the same size.",
            field="mask",
        )
    notes = []
    for name, (width, height) in sizes.items():
        from vidgen.media import describe_fit

        change = describe_fit(width, height, size.width, size.height, fit)
        if change is None or name == "mask":
            continue
        ratio = (width / height) / (size.width / size.height)
        if not asked and 1 - SMALL_CUT < ratio < 1 / (1 - SMALL_CUT):
            notes.append(f"{name}: {change.why}.")
        else:
            found.append(replace(change, field=name))
    return notes


def _fps(request: VideoRequest, inputs: Inputs, task: Task, model: Model) -> Fraction:
    if request.fps is not None:
        return request.fps
    if task in ("v2v", "vace") and inputs.video_fps is not None:
        return inputs.video_fps
    return Fraction(model.recipe.fps)


def _num_frames(
    request: VideoRequest,
    inputs: Inputs,
    task: Task,
    model: Model,
    fps: Fraction,
    found: list[Adjustment],
) -> int:
    family = model.family
    rule = f"{family.name} makes {family.vae_temporal}n+1 frames"
    if task in ("v2v", "vace") and inputs.video is not None:
        return _frames_of_video(request, inputs.video_frames, family, fps, rule, found)
    if request.seconds is not None:
        frames = frames_for(request.seconds, fps, family)
        _explain_seconds(request.seconds, frames, fps, rule, found)
        return frames
    if request.num_frames is None:
        return model.recipe.num_frames
    frames = legal_frames(request.num_frames, family)
    if frames != request.num_frames:
        found.append(Adjustment("num_frames", request.num_frames, frames, rule))
    return frames


def _explain_seconds(
    asked: float, frames: int, fps: Fraction, rule: str, found: list[Adjustment]
) -> None:
    used = round(float(frames / fps), 6)
    if abs(used - asked) > 1e-6:
        found.append(Adjustment("seconds", asked, used, f"{rule}; {frames} frames at {fps} fps"))


def _frames_of_video(
    request: VideoRequest,
    available: int,
    family: Family,
    fps: Fraction,
    rule: str,
    found: list[Adjustment],
) -> int:
    """Video in, video out: as many frames as the video has, down to the next legal count."""
    wanted = available
    if request.seconds is not None:
        wanted = max(1, round(Fraction(request.seconds).limit_denominator(1000) * fps))
    elif request.num_frames is not None:
        wanted = request.num_frames
    if wanted > available:
        field = "num_frames" if request.seconds is None else "seconds"
        has = f"{available} frames, {float(available / fps):.3f} s at {fps} fps"
        raise BadRequest(
            f"{field}={getattr(request, field):g} is more than the video has ({has}).", field=field
        )
    step = family.vae_temporal
    frames = (wanted - 1) // step * step + 1
    if request.seconds is not None:
        _explain_seconds(request.seconds, frames, fps, rule, found)
    elif frames != wanted:
        why = f"{rule}; the last {wanted - frames} are left out"
        found.append(Adjustment("num_frames", wanted, frames, why))
    return frames


def _prefix(
    request: VideoRequest,
    inputs: Inputs,
    num_frames: int,
    family: Family,
    fps: Fraction,
    found: list[Adjustment],
) -> int:
    if request.prefix_frames is None:
        return 0
    step = family.vae_temporal
    used = (min(request.prefix_frames, inputs.video_frames) - 1) // step * step + 1
    if used >= num_frames:
        raise BadRequest(
            f"prefix_frames={request.prefix_frames} leaves nothing to make of num_frames="
            f"{num_frames}; use at most {num_frames - step}.",
            field="prefix_frames",
        )
    if used != request.prefix_frames:
        why = f"whole latent frames are kept: {step}n+1 frames"
        found.append(Adjustment("prefix_frames", request.prefix_frames, used, why))
    if inputs.video_fps is not None and inputs.video_fps != fps:
        speed = float(fps / inputs.video_fps)
        why = f"the clip is at {fps} fps, so the kept frames play at {speed:.2f}x"
        found.append(Adjustment("video", f"{inputs.video_fps} fps", f"{fps} fps", why))
    return used


def refuse_beyond_positions(grid: Grid, references: int, model: Model) -> None:
    """Raise BadRequest for more latent frames, rows or columns than the model has positions."""
    limit = int(model.configs.transformer.get("rope_max_seq_len", 1024))
    sides = {
        "num_frames": grid.frames + references,
        "height": grid.rows,
        "width": grid.columns,
    }
    for field, count in sides.items():
        if count > limit:
            raise BadRequest(
                f"{field} is too large: it takes {count} positions and {model.name} has {limit}; "
                "ask for less.",
                field=field,
            )


def _explain_rate(
    request: VideoRequest,
    inputs: Inputs,
    num_frames: int,
    fps: Fraction,
    task: Task,
    model: Model,
    found: list[Adjustment],
) -> None:
    """A rate other than the model's own plays its motion slower or faster: say so."""
    own = model.recipe.fps
    from_video = task in ("v2v", "vace") and inputs.video is not None
    if request.fps is None or from_video or fps == own:
        return
    speed = float(fps / own)
    found.append(
        Adjustment(
            "fps",
            str(fps),
            f"{num_frames} frames, {float(num_frames / fps):.3f} s",
            f"{model.family.name} moves at {own} fps, so at {fps} its motion plays at {speed:.2f}x",
        )
    )


def _untrained(size: Size, num_frames: int, model: Model) -> list[str]:
    recipe = model.recipe
    notes = []
    if num_frames > recipe.max_frames_seen:
        notes.append(
            f"{num_frames} frames is beyond the {recipe.max_frames_seen} the model was trained "
            "on: expect repetition or burnt first frames; chain clips for longer video."
        )
    if size.width * size.height > SIZE_MARGIN * recipe.max_pixels_seen:
        notes.append(
            f"{size.width}x{size.height} is larger than the model was trained on: expect "
            "doubled or broken structure."
        )
    return notes


def vae_encodes(
    task: Task, shape: Shape, inputs: Inputs, family: Family
) -> tuple[tuple[int, int, int], ...]:
    """Return (frames, height, width) of every VAE encode that the task needs."""
    height, width = shape.size.height, shape.size.width
    if family.pipeline(task) == "WanVACEPipeline":
        whole = (shape.num_frames, height, width)
        return (whole, whole, *((1, height, width) for _ in inputs.references))
    if task == "t2v":
        return ()
    if task == "v2v":
        return ((shape.num_frames, height, width),)
    if not family.token_times:
        return ((shape.num_frames, height, width),)
    last = (1 + family.vae_temporal, height, width)
    return {
        "i2v": ((1, height, width),),
        "flf2v": ((1, height, width), last),
        "last": (last,),
        "prefix": ((shape.prefix_frames, height, width),),
    }[task]
