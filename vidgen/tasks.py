"""Which task a request means, and the shape (size, frames, rate) that the task gives the clip."""

from dataclasses import dataclass
from fractions import Fraction

from attention import Grid
from vidgen.adjustment import Adjustment
from vidgen.errors import BadRequest, Unsupported
from vidgen.families import FAMILIES, TASK_WORDS, Family, Task
from vidgen.inputs import Fit, Inputs
from vidgen.media.profiles import PROFILES
from vidgen.models import Model
from vidgen.request import VideoRequest
from vidgen.sizing import Size, frames_for, legal_frames, legal_size, same_area

SIZE_MARGIN = 1.1  # a model copes with a little more than it has seen


@dataclass(frozen=True, slots=True)
class Shape:
    """Size, frames and rate of a clip."""

    size: Size
    num_frames: int
    fps: Fraction
    prefix_frames: int
    fit: Fit
    notes: tuple[str, ...]


def choose_task(request: VideoRequest, inputs: Inputs, model: Model) -> Task:
    """Return the task that the given inputs mean.

    Raises  Unsupported when the model does not do it, naming what does
    """
    task = _meant(request, inputs, model)
    if task not in model.family.tasks:
        able = [row.name for row in FAMILIES if task in row.tasks]
        raise Unsupported(
            f"{model.name} does not do {TASK_WORDS[task]}; it does "
            f"{', '.join(TASK_WORDS[item] for item in model.family.tasks)}. "
            f"Families that do: {', '.join(able)}.",
            field=_field_of(task),
        )
    return task


def _meant(request: VideoRequest, inputs: Inputs, model: Model) -> Task:
    has_first, has_last = inputs.image is not None, inputs.last_image is not None
    if inputs.video is not None and request.prefix_frames is not None:
        return "prefix"
    if inputs.video is not None:
        if has_first or has_last:
            raise BadRequest(
                "video and image cannot be combined; give one of them, or prefix_frames.",
                field="image",
            )
        return "vace" if "vace" in model.family.tasks and request.strength is None else "v2v"
    if inputs.references:
        return "vace"
    if has_first and has_last:
        return "flf2v"
    if has_first:
        return "i2v"
    return "last" if has_last else "t2v"


def _field_of(task: Task) -> str:
    return {
        "t2v": "image", "i2v": "image", "flf2v": "last_image", "last": "last_image",
        "prefix": "prefix_frames", "v2v": "video", "vace": "reference_images",
    }[task]  # fmt: skip


def refuse_unused(request: VideoRequest, task: Task, model: Model) -> None:
    """Raise Unsupported for a given field that this task on this model would not read."""
    two = model.family.experts == 2
    checks = (
        ("guidance_scale_2", request.guidance_scale_2 is not None, two, "a two-expert model"),
        ("boundary_ratio", request.boundary_ratio is not None, two, "a two-expert model"),
        ("strength", request.strength is not None, task == "v2v", "video to video"),
        (
            "conditioning_scale",
            request.conditioning_scale is not None,
            "WanVACEPipeline" in model.family.pipeline(task),
            "a VACE model",
        ),
        ("mask", request.mask is not None, task == "vace", "a VACE model"),
        (
            "reference_images",
            bool(request.reference_images),
            task == "vace",
            "a VACE model without first or last image",
        ),
        (
            "loras",
            any(lora.target != "both" for lora in request.loras),
            two,
            "a two-expert model where a target is given",
        ),
    )
    for field, given, read, needs in checks:
        if given and not read:
            raise Unsupported(
                f"{field} has no effect here: it needs {needs}, and this is "
                f"{TASK_WORDS[task]} on {model.name}; leave it out.",
                field=field,
            )


def choose_shape(
    request: VideoRequest, inputs: Inputs, task: Task, model: Model, found: list[Adjustment]
) -> Shape:
    """Return the clip's size, frame count and rate; deviations are appended to `found`."""
    size, fit = _size(request, inputs, model.family, found)
    fps = _fps(request, inputs, task, model.family)
    num_frames = _num_frames(request, inputs, task, model.family, fps, found)
    prefix = _prefix(request, inputs, num_frames, model.family, found)
    _explain_rate(request, inputs, num_frames, fps, task, model.family, found)
    return Shape(size, num_frames, fps, prefix, fit, _notes(size, num_frames, model.family))


def _size(
    request: VideoRequest, inputs: Inputs, family: Family, found: list[Adjustment]
) -> tuple[Size, Fit]:
    recipe = family.recipe
    width, height = request.width, request.height
    source = inputs.source_size
    if width is None and height is None:
        fit = request.fit or "adaptive"
        if source is not None and fit == "adaptive":
            width, height = same_area(*source, family)
            return Size(width, height, width, height), "crop"
        size, _ = legal_size(recipe.width, recipe.height, family, even=True)
        return size, "crop" if fit == "adaptive" else fit
    if width is None or height is None:
        other = "height" if height is None else "width"
        ratio = Fraction(source[0], source[1]) if source else Fraction(recipe.width, recipe.height)
        across, down = family.size_multiple
        if height is None:
            assert width is not None
            height = max(down, round(width / ratio / down) * down)
        else:
            width = max(across, round(height * ratio / across) * across)
        why = "the other side was given alone; the shape is the input's or the model's own"
        found.append(Adjustment(other, None, height if other == "height" else width, why))
    assert width is not None
    fit = request.fit or "crop"
    if fit == "adaptive":
        if source is None:
            raise BadRequest("fit=adaptive needs an image or a video.", field="fit")
        raise BadRequest(
            "fit=adaptive takes the size from the input; leave width and height out, "
            "or use crop, letterbox or stretch.",
            field="fit",
        )
    size, changes = legal_size(width, height, family, even=PROFILES[request.format].even)
    found.extend(changes)
    if source is not None and source[0] * height != source[1] * width:
        lost = {"crop": "its edges are cut", "letterbox": "bars are added", "stretch": "squeezed"}
        found.append(
            Adjustment(
                "image" if inputs.video is None else "video",
                f"{source[0]}x{source[1]}",
                f"{size.width}x{size.height}",
                f"the shapes differ: {lost[fit]} (fit={fit})",
            )
        )
    return size, fit


def _fps(request: VideoRequest, inputs: Inputs, task: Task, family: Family) -> Fraction:
    if request.fps is not None:
        return request.fps
    if task in ("v2v", "vace") and inputs.video_fps is not None:
        return inputs.video_fps
    return Fraction(family.recipe.fps)


def _num_frames(
    request: VideoRequest,
    inputs: Inputs,
    task: Task,
    family: Family,
    fps: Fraction,
    found: list[Adjustment],
) -> int:
    rule = f"{family.name} makes {family.vae_temporal}n+1 frames"
    if task in ("v2v", "vace") and inputs.video is not None:
        return _frames_of_video(request, len(inputs.video), family, fps, rule, found)
    if request.seconds is not None:
        frames = frames_for(request.seconds, fps, family)
        used = round(float(frames / fps), 6)
        if abs(used - request.seconds) > 1e-9:
            why = f"{rule}; {frames} frames at {fps} fps"
            found.append(Adjustment("seconds", request.seconds, used, why))
        return frames
    if request.num_frames is None:
        return family.recipe.num_frames
    frames = legal_frames(request.num_frames, family)
    if frames != request.num_frames:
        found.append(Adjustment("num_frames", request.num_frames, frames, rule))
    return frames


def _frames_of_video(
    request: VideoRequest,
    available: int,
    family: Family,
    fps: Fraction,
    rule: str,
    found: list[Adjustment],
) -> int:
    """Video in, video out: as many frames as the video has, down to the next legal count."""
    asked = request.num_frames
    if request.seconds is not None:
        asked = frames_for(request.seconds, fps, family)
    if asked is not None and asked > available:
        raise BadRequest(
            f"num_frames={asked} is more than the video has ({available}); "
            f"use at most {available}.",
            field="num_frames",
        )
    wanted = available if asked is None else asked
    step = family.vae_temporal
    frames = (wanted - 1) // step * step + 1
    if frames != wanted:
        why = f"{rule}; the video's last {wanted - frames} frames are left out"
        found.append(Adjustment("num_frames", wanted, frames, why))
    return frames


def _prefix(
    request: VideoRequest,
    inputs: Inputs,
    num_frames: int,
    family: Family,
    found: list[Adjustment],
) -> int:
    if request.prefix_frames is None:
        return 0
    step = family.vae_temporal
    available = request.prefix_frames if inputs.video is None else len(inputs.video)
    used = (min(request.prefix_frames, available) - 1) // step * step + 1
    if used >= num_frames:
        raise BadRequest(
            f"prefix_frames={request.prefix_frames} leaves nothing to make of num_frames="
            f"{num_frames}; use at most {num_frames - step}.",
            field="prefix_frames",
        )
    if used != request.prefix_frames:
        why = f"whole latent frames are kept: {step}n+1 frames"
        found.append(Adjustment("prefix_frames", request.prefix_frames, used, why))
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
    family: Family,
    found: list[Adjustment],
) -> None:
    """A rate other than the model's own plays its motion slower or faster: say so."""
    own = family.recipe.fps
    from_video = task in ("v2v", "vace") and inputs.video is not None
    if request.fps is None or from_video or fps == own:
        return
    speed = float(fps / own)
    found.append(
        Adjustment(
            "fps",
            str(fps),
            f"{num_frames} frames, {float(num_frames / fps):.3f} s",
            f"{family.name} moves at {own} fps, so at {fps} its motion plays at {speed:.2f}x",
        )
    )


def _notes(size: Size, num_frames: int, family: Family) -> tuple[str, ...]:
    recipe = family.recipe
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
    return tuple(notes)


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
