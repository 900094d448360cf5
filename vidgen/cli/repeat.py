"""`vidgen repeat`: a file's clip made again from its recipe, and how near the two are."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from vidgen.adjustment import Adjustment
from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Made, Maker, check_room, new_writer, plan_facts
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
from vidgen.cli.place import find_device, home_of, settings_of
from vidgen.cli.recipes import recipe_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.media import PROFILES
from vidgen.plan import plan
from vidgen.request import canonical_names, parse_request
from vidgen.settings import outweighed


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
    asked = {"model": recipe["plan"]["model"], **recipe["request"]}
    request = parse_request(outweighed(asked, _overrides(flags)))
    settings = settings_of(common, running.given())
    home = home_of(common)
    device = find_device(settings, home, only_planning=False)
    reporter = Reporter(common)
    made_plan = plan(request, device.profile)
    target = out or Path(f"{_stem(file)}-repeat{PROFILES[request.format].suffix}")
    if target.exists() and target.samefile(file):
        raise BadRequest(f"{target} is the file to repeat; give another --out.")
    new_writer(target, plan_facts(made_plan))
    made_plan.check_fits()
    check_room([made_plan], target.absolute().parent)
    reporter.emit("plan", plan=made_plan.as_dict(), device=device.torch_name)
    reporter.adjustments(made_plan.adjustments)
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=settings.switch("offline"))
        made = maker.make(made_plan, target)
    changes = _changes(recipe, made.recipe)
    verdict = _verdict(file, recipe, made, wanted)
    reporter.emit("result", clips=[made.as_dict()], changes=[item.as_dict() for item in changes],
                  **verdict)  # fmt: skip
    reporter.say(str(made))
    for item in changes:
        reporter.say(f"differs   {item.field}: {item.asked} then, {item.used} now")
    reporter.say(f"{verdict['verdict']:<8}  {verdict['reason']}")
    return 0 if verdict["ok"] else 1


def _overrides(flags: RequestFlags) -> dict[str, Any]:
    """Return the fields that flags change."""
    try:
        return canonical_names(flags_given(flags))
    except ValueError as error:
        raise BadRequest(f"{error}.") from None


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


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[Adjustment]:
    """Return what differs between the two makings: environment, weights, files."""
    found = []
    for part, title in (("environment", "environment"), ("files", "file")):
        old, new = before.get(part, {}), now.get(part, {})
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                why = "not as it was when the file was made"
                found.append(Adjustment(f"{title} {name}", old.get(name), new.get(name), why))
    if before["weights"] != now["weights"]:
        why = "the model's weights are not as they were"
        found.append(Adjustment("weights", before["weights"], now["weights"], why))
    return found


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
