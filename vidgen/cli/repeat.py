"""`vidgen repeat`: a file's clip made again from its recipe, and how near the two are."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.adjustment import Adjustment
from vidgen.cli.changes import changes_before
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Made, Maker, check_room, new_writer, plan_facts
from vidgen.cli.naming import refuse_kept_latents
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
from vidgen.cli.place import find_device, home_of, settings_of
from vidgen.cli.recipes import recipe_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.inputs import load_inputs
from vidgen.media import PROFILES
from vidgen.media.disk import check_folder
from vidgen.plan import plan
from vidgen.request import VideoRequest, canonical_names, parse_request
from vidgen.settings import listed, outweighed


@dataclass(frozen=True, slots=True)
class Expectation:
    """How near the repeat has to come; without a bound in dB it has to be exact."""

    decibels: float | None


@flowing
def repeat(
    file: Annotated[Path, Parameter(help="A clip or latents that Vidgen made.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="The new file.")] = None,
    expect: Annotated[
        str | None,
        Parameter(help="exact, or close:PSNR in dB, e.g. close:40; exit code 1 when it differs."),
    ] = None,
    flags: FlagsOf = RequestFlags(),  # noqa: B008 - frozen
    running: RunningOf = Running(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Make a file's clip again from the recipe inside it, and compare.

    Settings of files and of the environment do not count here, apart from the device; flags change
    the recipe's request.
    """
    wanted = None if expect is None else _parse(expect)
    recipe = recipe_of(file)
    request = _request(file, recipe, _overrides(flags))
    settings = settings_of(common, running.given())
    home = home_of(common)
    device = find_device(settings, home, only_planning=False)
    reporter = Reporter(common)
    inputs = load_inputs(request)
    made_plan = plan(request, device.profile, inputs)
    target = out or Path(f"{_stem(file)}-repeat{PROFILES[request.format].suffix}")
    if target.exists() and target.samefile(file):
        raise BadRequest(f"{target} is the file to repeat; give another --out.")
    refuse_kept_latents([target])
    new_writer(target, plan_facts(made_plan))
    made_plan.check_fits()
    check_room([made_plan], target.absolute().parent)
    check_folder(target.absolute().parent)
    reporter.emit("plan", plan=made_plan.as_dict(), device=device.torch_name)
    reporter.adjustments(made_plan.adjustments)
    if device.note:
        reporter.warn(device.note)
    changes, decisive = changes_before(recipe, made_plan, inputs)
    for item in changes:
        reporter.warn(f"{item.field}: {item.asked} then, {item.used} now", "differs")
    if decisive and wanted is not None and wanted.decibels is None:
        return _refuse(decisive, changes, reporter)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=settings.switch("offline"))
        made = maker.make(made_plan, target, inputs=inputs)
    verdict = _verdict(file, recipe, made, wanted)
    reporter.emit("result", clips=[made.as_dict()], changes=[item.as_dict() for item in changes],
                  **verdict)  # fmt: skip
    reporter.say(str(made))
    reporter.say(f"{verdict['verdict']:<8}  {verdict['reason']}")
    return 0 if verdict["ok"] else 1


def _overrides(flags: RequestFlags) -> dict[str, Any]:
    """Return the fields that flags change."""
    try:
        return listed(canonical_names(flags_given(flags)))
    except ValueError as error:
        raise BadRequest(f"{error}.") from None


def _request(file: Path, recipe: dict[str, Any], overrides: dict[str, Any]) -> VideoRequest:
    """Return the recipe's request with the flags' changes.

    Raises  BadRequest when it asks for several clips or for inputs that no file holds
    """
    asked = {"model": recipe["plan"]["model"], **recipe["request"]}
    request = with_absolute_paths(parse_request(outweighed(asked, overrides)))
    if request.n > 1:
        raise BadRequest(f"n={request.n}: a repeat makes one clip; leave n out.", field="n")
    used = {re.sub(r"^reference_\d+$", "reference_images", name) for name in recipe["inputs"]}
    lost = sorted(name for name in used if not getattr(request, name))
    if lost:
        raise BadRequest(
            f"{file} was made from inputs held in memory ({', '.join(lost)}), which its recipe "
            "does not hold; give the same as files.",
            field=lost[0],
        )
    return request


def _refuse(decisive: list[str], changes: list[Adjustment], reporter: Reporter) -> int:
    """Say why a repeat cannot be exact, without making it; return the exit code."""
    reason = f"it cannot be exact, so it was not made: {', '.join(decisive)} differ"
    data = {"ok": False, "verdict": "differs", "reason": reason}
    reporter.emit("result", clips=[], changes=[item.as_dict() for item in changes], **data)
    reporter.say(f"differs   {reason}")
    return 1


def _parse(expect: str) -> Expectation:
    if expect == "exact":
        return Expectation(None)
    match = re.fullmatch(r"close:(\d+(?:\.\d+)?)", expect)
    if match is None:
        raise BadRequest(
            f"expect={expect!r} is not known; write exact, or close:40 for 40 dB.", field="expect"
        )
    return Expectation(float(match[1]))


def _stem(file: Path) -> str:
    return file.name.removesuffix(".latents.safetensors").rsplit(".", 1)[0]


def _verdict(
    file: Path, recipe: dict[str, Any], made: Made, wanted: Expectation | None
) -> dict[str, Any]:
    """Judge the repeat: by its latents, and by its pixels where both files have some."""
    same = recipe["latents_sha256"] == made.recipe["latents_sha256"]
    decibels, why_not = (None, "latents have no pixels")
    if not file.name.endswith(".safetensors"):
        decibels, why_not = _psnr(file, made.path)
    pixels = why_not if decibels is None else f"PSNR {decibels:.2f} dB"
    if decibels == float("inf"):
        pixels = "every pixel is equal"
    exact = same and (decibels == float("inf") or why_not == "latents have no pixels")
    data = {"latents_equal": same, "psnr": None if decibels == float("inf") else decibels}
    if wanted is None:
        ok = True
    elif wanted.decibels is None:
        ok = exact
    else:
        ok = exact or (decibels is not None and decibels >= wanted.decibels)
    word = "exact" if exact else "close" if ok and wanted is not None else "differs"
    reason = f"the latents are {'equal' if same else 'not equal'}; {pixels}"
    return {**data, "ok": ok, "verdict": word, "reason": reason}


def _psnr(one: Path, other: Path) -> tuple[float | None, str]:
    """Return the peak signal-to-noise ratio of two clips in dB, or None and why there is none."""
    import numpy as np

    from vidgen.media import probe_video, read_video

    if one.is_dir() or other.is_dir():
        return None, "folders of frames are not compared"
    facts = [probe_video(path) for path in (one, other)]
    shapes = [f"{item.num_frames} frames of {item.width}x{item.height}" for item in facts]
    if shapes[0] != shapes[1]:
        return None, f"{shapes[0]} then, {shapes[1]} now"
    total, count = 0.0, 0
    for before, now in zip(read_video(one), read_video(other), strict=True):
        error = before.astype(np.float64) - now
        total += float((error**2).sum())
        count += error.size
    if total == 0:
        return float("inf"), ""
    return float(10 * np.log10(count / total)), ""
