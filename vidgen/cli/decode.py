"""`vidgen decode`: the clip that a failed or stopped run was to write, from its latents."""

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from vidgen.adjustment import Adjustment
from vidgen.cli.go_on import go_on
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import ClipFile, Made, new_writer, quiet_libraries
from vidgen.cli.naming import LATENTS_SUFFIX, format_of
from vidgen.cli.options import Common, CommonOf, Running, RunningOf, flowing
from vidgen.cli.place import Device, find_device, home_of, settings_of
from vidgen.cli.recipes import recipe_of
from vidgen.cli.report import Reporter
from vidgen.cli.stills import check_stills, save_sheet
from vidgen.errors import Cancelled
from vidgen.events import CancelToken, Event, Preview
from vidgen.media import PROFILES
from vidgen.models import Model, resolve
from vidgen.workload import Tiling

Switch = Literal["auto", "on", "off"]


@flowing
def decode(
    latents: Annotated[Path, Parameter(help="A file that ends in .latents.safetensors.")],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(name=["--out", "-o"], help="The clip's file. [default: the run's own]"),
    ] = None,
    format: Annotated[
        str | None, Parameter(help=f"One of: {', '.join(PROFILES)}; the request's when omitted.")
    ] = None,
    crf: Annotated[int | None, Parameter(help="Quality; the request's when omitted.")] = None,
    vae_tiling: Annotated[
        Switch, Parameter(help="Decode in tiles: less memory, other pixels at the seams.")
    ] = "auto",
    model: Annotated[
        str | None, Parameter(help="Where the model is now, if the recipe's name is out of date.")
    ] = None,
    sheet: Annotated[Path | None, Parameter(help="Write a contact sheet.")] = None,
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> None:
    """Finish a clip from the latents that an earlier run left.

    Of a run that was stopped while denoising the remaining steps are made first, with the whole
    model; the clip is the same as if it had never been stopped. Otherwise only the model's VAE is
    loaded. The latents stay where they are; vidgen gc removes old ones.
    """
    recipe = recipe_of(latents)
    settings = settings_of(common, running.given())
    device = find_device(settings, home_of(common), only_planning=False)
    reporter = Reporter(common)
    facts = _facts(recipe, out, format, crf)
    target = out or _meant_path(latents, facts["profile"])
    new_writer(target, facts)
    check_stills([target], sheet)
    if "unfinished" in recipe:
        changes = {"model": model, "format": facts["profile"], "crf": crf}
        if vae_tiling != "auto":
            changes["vae_tiling"] = vae_tiling
        made = go_on(latents, target, changes, device, home_of(common), reporter,
                     offline=settings.switch("offline"), with_sheet=sheet is not None)  # fmt: skip
        _tell(made, sheet, facts, reporter)
        return
    row = resolve(model or recipe["request"].get("model", recipe["plan"]["model"]))
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        made = _decode(
            latents, target, facts, row, device, reporter, cancel,
            tiling=vae_tiling, with_sheet=sheet is not None,
            offline=settings.switch("offline"),
        )  # fmt: skip
    _tell(made, sheet, facts, reporter)


def _tell(made: Made, sheet: Path | None, facts: dict[str, Any], reporter: Reporter) -> None:
    if sheet is not None and made.sheet is not None:
        save_sheet(sheet, [made.sheet], [made.recipe], facts["fps"])
    reporter.say(str(made))
    reporter.emit("result", clips=[made.as_dict()])


def _facts(
    recipe: dict[str, Any], out: Path | None, asked_format: str | None, crf: int | None
) -> dict[str, Any]:
    """Return what the writer needs, from the recipe and the flags."""
    made, request = recipe["plan"], recipe["request"]
    meant = format_of(out) if out is not None else None
    profile = asked_format or meant or request.get("format", "mp4")
    same = profile == request.get("format", "mp4")
    return {
        "width": made["width"],
        "height": made["height"],
        "crop": (made["export_width"], made["export_height"]),
        "fps": Fraction(made["fps"]),
        "profile": profile,
        "crf": crf if crf is not None else request.get("crf") if same else None,
    }


def _meant_path(latents: Path, profile: str) -> Path:
    """Return the file that the run was to write, with the suffix of the format it gets now."""
    name = latents.name.removesuffix(LATENTS_SUFFIX)
    if name == latents.name:
        name = latents.stem
    suffix = PROFILES[profile].suffix if profile in PROFILES else ""
    path = latents.with_name(name)
    return path if path.suffix == suffix else path.with_name(f"{path.stem}{suffix}")


def _decode(
    latents: Path,
    target: Path,
    facts: dict[str, Any],
    row: Model,
    device: Device,
    reporter: Reporter,
    cancel: CancelToken,
    *,
    tiling: Switch,
    with_sheet: bool,
    offline: bool,
) -> Made:
    reporter.stage(f"load the VAE of {row.name}")
    quiet_libraries()
    from vidgen.engine import Engine
    from vidgen.latents import load_latents

    saved = load_latents(latents)
    engine = Engine.load(row, device=device.torch_name, offline=offline, decoder_only=True)
    planned: Tiling = saved.recipe["plan"]["vae_tiling"]
    choices: dict[Switch, Tiling] = {"auto": planned, "on": "tiles", "off": "whole"}
    if engine.weights != saved.recipe["weights"]:
        why = "the model's weights have changed since the latents were made"
        change = Adjustment("model", saved.recipe["weights"], engine.weights, why)
        reporter.adjustments([change])
        saved.recipe["adjustments"].append(change.as_dict())

    def listen(event: Event) -> None:
        if not isinstance(event, Preview):
            reporter.progress(event, 1, 1)

    with ExitStack() as stack:
        output = ClipFile(stack, facts, target, with_sheet=with_sheet)
        try:
            made = engine.decode(
                saved, tiling=choices[tiling], on=listen, cancel=cancel, open_sink=output.open
            )
        except Cancelled as error:
            error.message = f"{error.message} {latents} is as it was; the same command decodes it."
            raise
    return Made(target, latents, made.recipe, output.sheet)
