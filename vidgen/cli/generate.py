"""`vidgen generate`: one request, from the flags to the file."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Made, Maker, check_room, new_writer, plan_facts
from vidgen.cli.naming import (
    DEFAULT_TEMPLATE,
    check_template,
    clip_paths,
    format_of,
    refuse_kept_latents,
)
from vidgen.cli.options import (
    Common,
    CommonOf,
    FlagsOf,
    RequestFlags,
    Running,
    RunningOf,
    flags_given,
    flowing,
)
from vidgen.cli.paths import with_absolute_paths
from vidgen.cli.place import Device, find_device, home_of, settings_of
from vidgen.cli.report import Reporter
from vidgen.cli.show import plan_text
from vidgen.cli.stills import check_stills, save_sheet
from vidgen.errors import BadRequest
from vidgen.media.disk import check_folder
from vidgen.plan import Plan, plan
from vidgen.request import VideoRequest, parse_request
from vidgen.settings import Settings


@flowing
def generate(
    prompt: Annotated[str | None, Parameter(help="What the clip shows.")] = None,
    /,
    *,
    prompt_file: Annotated[Path | None, Parameter(help="Read the prompt from a file.")] = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="The clip's file.")] = None,
    name_template: Annotated[
        str | None,
        Parameter(help=f"Name without --out, in this folder. [default: {DEFAULT_TEMPLATE}]"),
    ] = None,
    sheet: Annotated[
        Path | None, Parameter(help="Write a contact sheet of the clips: .png, .jpg or .webp.")
    ] = None,
    preview_file: Annotated[
        Path | None, Parameter(help="Redraw a moving preview at each step: .webp, .gif or .png.")
    ] = None,
    dry_run: Annotated[
        bool,
        Parameter(help="Print the whole plan and its cost; needs no weights.", show_default=False),
    ] = False,
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Make a clip from a prompt, with or without pictures.

    The default model, toyworld, is a small bundled toy world: coloured things that move over plain
    grounds ("a big red ball moves quickly left over the sand"). It cannot picture anything else.
    For real pictures name a real model: --model wan2.1-t2v-1.3b (vidgen models ls lists more), a
    local folder in diffusers' format, or a hub id. What is omitted takes the model's own recipe.

    Ctrl-C stops after the step that runs and keeps what was done; a second one aborts. Latents are
    on disk before they are decoded. Whatever was stopped or failed after its first step is finished
    by vidgen decode, to the same clip.

    With --server URL, or VIDGEN_SERVER, a server makes it: vidgen generate --server URL --help.
    """
    given = flags_given(flags) | running.given()
    add_prompt(given, prompt, prompt_file)
    if name_template is not None:
        given["name_template"] = name_template
    settings = settings_of(common, given)
    request = request_with_format(settings, out)
    template = settings.own("name_template", DEFAULT_TEMPLATE)
    check_template(template)
    home = home_of(common)
    device = find_device(settings, home, only_planning=dry_run)
    reporter = Reporter(common)
    inputs = None
    if not dry_run:
        from vidgen.inputs import load_inputs

        inputs = load_inputs(request)
    made_plan = plan(request, device.profile, inputs)
    paths = clip_paths(out, template, made_plan, folder=Path())
    for path in paths:
        new_writer(path, plan_facts(made_plan))
    if dry_run:
        reporter.answer({"event": "plan", "dry_run": True, "plan": made_plan.as_dict()},
                        plan_text(made_plan))  # fmt: skip
        return
    refuse_kept_latents(paths)
    made_plan.check_fits()
    check_room([made_plan], paths[0].absolute().parent)
    check_folder(paths[0].absolute().parent)
    check_stills(paths, sheet, preview_file)
    _tell(reporter, made_plan, device)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=settings.switch("offline"))
        made = _make_all(maker, made_plan, paths, inputs, sheet, preview_file, reporter)
    for item in made:
        reporter.say(str(item))
    reporter.emit("result", clips=[item.as_dict() for item in made])


def add_prompt(given: dict[str, Any], prompt: str | None, file: Path | None) -> None:
    """Take the prompt from the one place where it was given.

    given   the flags' values; the prompt is added
    Raises  BadRequest
    """
    ways = [
        ("PROMPT", prompt),
        ("--prompt", given.get("prompt")),
        ("--prompt-file", file),
    ]
    used = [name for name, value in ways if value is not None]
    if len(used) > 1:
        raise BadRequest(f"{' and '.join(used)} both give the prompt; use one.", field="prompt")
    if prompt is not None:
        given["prompt"] = prompt
    elif file is not None:
        try:
            given["prompt"] = file.read_text("utf-8").strip()
        except UnicodeDecodeError:
            raise BadRequest(f"{file} is not UTF-8 text.", field="prompt") from None


def request_with_format(settings: Settings, out: Path | None) -> VideoRequest:
    """Make the request; without a format, the suffix of the file that is asked for decides."""
    data = settings.request()
    meant = None if out is None else format_of(out)
    if "format" not in data and meant is not None:
        data["format"] = meant
    return with_absolute_paths(parse_request(data))


def _tell(reporter: Reporter, made_plan: Plan, device: Device) -> None:
    """Say what will be done before it is done."""
    reporter.emit("plan", plan=made_plan.as_dict(), device=device.torch_name)
    reporter.adjustments(made_plan.adjustments)
    for note in filter(None, (device.note, *made_plan.notes)):
        reporter.warn(note)
    if reporter.for_people and made_plan.request.seed is None:
        reporter.warn(f"{', '.join(str(seed) for seed in made_plan.seeds)} (drawn)", "seed")


def _make_all(
    maker: Maker,
    made_plan: Plan,
    paths: list[Path],
    inputs: Any,
    sheet: Path | None,
    preview: Path | None,
    reporter: Reporter,
) -> list[Made]:
    """Make every clip of the plan; those that are finished stay when a later one fails."""
    made: list[Made] = []
    try:
        try:
            for index, path in enumerate(paths):
                item = maker.make(
                    made_plan,
                    path,
                    index=index,
                    clip=index + 1,
                    clips=len(paths),
                    inputs=inputs,
                    with_sheet=sheet is not None,
                    preview=preview,
                )
                made.append(item)
                reporter.emit("clip", clip=index + 1, clips=len(paths), **item.as_dict())
                reporter.adjustments(_found_while_running(item, made_plan))
        finally:
            _save_sheet(sheet, made, made_plan, reporter)
    except BaseException:
        if made:
            reporter.warn(", ".join(str(item.path) for item in made), "finished")
        raise
    return made


def _save_sheet(sheet: Path | None, made: list[Made], made_plan: Plan, reporter: Reporter) -> None:
    frames = [(item, item.sheet) for item in made if item.sheet is not None]
    if sheet is None or not frames:
        return
    kept, recipes = [kept for _, kept in frames], [item.recipe for item, _ in frames]
    save_sheet(sheet, kept, recipes, made_plan.fps)
    reporter.emit("sheet", path=str(sheet))


def _found_while_running(item: Made, made_plan: Plan) -> list[Any]:
    from vidgen.adjustment import Adjustment

    found = [Adjustment(**entry) for entry in item.recipe["adjustments"]]
    return [entry for entry in found if entry not in made_plan.adjustments]
