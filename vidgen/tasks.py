"""Which task a request means, and which of its fields that task reads."""

from vidgen.errors import BadRequest, Unsupported
from vidgen.families import FAMILIES, TASK_WORDS, Task
from vidgen.inputs import Inputs
from vidgen.models import Model
from vidgen.request import VideoRequest


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


def check_inputs(
    request: VideoRequest, inputs: Inputs, model: Model, task: Task, num_frames: int
) -> None:
    """Raise BadRequest when the inputs mean another task than a plan was made for.

    num_frames  that the plan reads of a video
    """
    if _meant(request, inputs, model) != task:
        raise BadRequest(
            f"The plan is for {TASK_WORDS[task]}, but the inputs that are given do not mean that; "
            "run it with the inputs it was planned with."
        )
    if inputs.video is not None and inputs.video_frames < num_frames:
        raise BadRequest(
            f"The plan reads {num_frames} frames of the video, {inputs.video_frames} are given; "
            "run it with the inputs it was planned with.",
            field="video",
        )


def refuse_unused(request: VideoRequest, inputs: Inputs, task: Task, model: Model) -> None:
    """Raise Unsupported for a given field that this task on this model would not read."""
    two = model.family.experts == 2
    guided = request.guidance_scale is None or request.guidance_scale > 1
    checks = (
        (
            "guidance_scale_2",
            request.guidance_scale_2 is not None,
            two and guided,
            "a two-expert model and guidance_scale above 1",
        ),
        ("boundary_ratio", request.boundary_ratio is not None, two, "a two-expert model"),
        ("strength", request.strength is not None, task == "v2v", "video to video"),
        *(
            (
                name,
                bool(value) and value != "pin",
                model.family.token_times and task in ("i2v", "flf2v", "prefix"),
                "given frames at the start and a model whose tokens have their own times",
            )
            for name, value in (
                ("history", request.history),
                ("history_noise", request.history_noise),
            )
        ),
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
        ("fit", request.fit is not None, bool(inputs.sizes), "a picture or a video"),
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
