"""Going on with a run that was stopped while denoising."""

from pathlib import Path
from typing import Any

from vidgen.cli.interrupt import stoppable
from vidgen.cli.making import Made, Maker
from vidgen.cli.naming import latents_beside
from vidgen.cli.paths import with_absolute_paths
from vidgen.cli.place import Device
from vidgen.cli.recipes import recipe_of
from vidgen.cli.report import Reporter
from vidgen.errors import BadRequest
from vidgen.home import Home
from vidgen.inputs import load_inputs
from vidgen.plan import plan
from vidgen.request import parse_request


def go_on(
    latents: Path,
    target: Path,
    changes: dict[str, Any],
    device: Device,
    home: Home,
    reporter: Reporter,
    *,
    offline: bool,
    with_sheet: bool,
) -> Made:
    """Make the steps that the run had left, and its clip.

    latents  what the run left; of a run to another file they stay
    changes  fields of the request that are other now, None for as it was
    Raises   VidgenError; what the run left stays, with the steps that were added
    """
    recipe = recipe_of(latents)
    given = {name: value for name, value in changes.items() if value is not None}
    request = with_absolute_paths(parse_request({**recipe["request"], **given}))
    inputs = load_inputs(request)
    made_plan = plan(request, device.profile, inputs)
    made_plan.check_fits()
    own = latents_beside(target).absolute() == latents.absolute()
    if not own and latents_beside(target).exists():
        raise BadRequest(
            f"{latents_beside(target)} holds latents of another run; give another --out.",
            field="out",
        )
    done = recipe["unfinished"]
    reporter.warn(f"goes on after step {done['step']} of {done['of']}")
    with stoppable(speak=reporter.for_people) as cancel, reporter.working():
        maker = Maker(device, home, reporter, cancel, offline=offline)
        maker.engine(made_plan)
        from vidgen.unfinished import load_unfinished

        return maker.make(
            made_plan,
            target,
            inputs=inputs,
            with_sheet=with_sheet,
            resume=load_unfinished(latents),
        )
