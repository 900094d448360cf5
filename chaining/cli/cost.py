"""What a chain will cost, before it is made: the estimates of all its clips together."""

# f frames  r rows  w columns  c channels  t latent frames
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chaining.clip_plan import ClipPlan
from chaining.engine_maker import clip_request
from chaining.maker import Ask
from chaining.making import SEAM
from chaining.schedule import Schedule
from chaining.story import Story
from chaining.strategies import Given, Seen, handing
from vidgen.cli.show import bytes_text
from vidgen.device import DeviceProfile
from vidgen.errors import DoesNotFit
from vidgen.inputs import Inputs
from vidgen.plan import Plan, plan
from vidgen.workload import Interval

_KEPT = "master"  # format of the frames that the folder keeps


@dataclass(frozen=True, slots=True)
class Cost:
    """One chain on one device.

    seconds  of all clips, weights loaded
    folder   bytes of what the chain's folder keeps; video: of the file
    largest  the plan of the clip that takes most memory
    """

    seconds: Interval
    folder: Interval
    video: Interval
    largest: Plan

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return {
            name: {"low": found.low, "high": found.high}
            for name, found in (
                ("seconds", self.seconds),
                ("folder_bytes", self.folder),
                ("video_bytes", self.video),
            )
        }

    def check_room(self, folder: Path, output: Path) -> None:
        """Raise DoesNotFit when a disk cannot hold what is planned."""
        for place, need in ((folder, self.folder), (output.absolute().parent, self.video)):
            there = place.absolute()
            while not there.exists():
                there = there.parent
            free = shutil.disk_usage(there).free
            if need.low > free:
                raise DoesNotFit(
                    f"The disk of {place} has {bytes_text(free)} free and at least "
                    f"{bytes_text(need.low)} are needed; free space, or choose another place."
                )


def chain_cost(story: Story, schedule: Schedule, first: Plan, device: DeviceProfile) -> Cost:
    """Return what the clips of a schedule cost.

    first  as `engine_maker.first_plan` made it
    """
    fields = {name: value for name, value in story.request.items() if name != "strict"}
    export = first.size.export_width, first.size.export_height
    known: dict[tuple[int, ...], tuple[Plan, Plan]] = {}
    seconds, folder, video = (Interval(0, 0) for _ in range(3))
    for clip in schedule.clips:
        given = _given(story, clip, first)
        key = _shape(clip, given)
        if key not in known:
            ask = _ask(clip, given)
            kept_as = clip_request({**fields, "format": _KEPT, "crf": None}, export, ask)
            shown_as = clip_request(fields, export, ask)
            inputs = _inputs(ask)
            known[key] = plan(kept_as, device, inputs), plan(shown_as, device, inputs)
        kept, shown = (found.estimate for found in known[key])
        takes = story.controls.best_of_seams if clip.previous is not None else 1
        handed = 12 * first.size.width * first.size.height * (max(SEAM, clip.overlap) + 1)
        seconds = _sum(seconds, kept.seconds["total"], takes)
        folder = _sum(folder, kept.disk_bytes, takes)
        folder = _sum(folder, Interval(handed, handed), takes)
        video = _sum(video, shown.disk_bytes, clip.shown / clip.num_frames)
    plans = [shown for _, shown in known.values()]
    largest = max(plans, key=lambda found: found.estimate.device_bytes.low)
    return Cost(seconds, folder, video, largest)


def _sum(one: Interval, two: Interval, times: float) -> Interval:
    return Interval(one.low + times * two.low, one.high + times * two.high)


def _given(story: Story, clip: ClipPlan, first: Plan) -> Given:
    """Return what a clip is conditioned on, with black pictures of one value in memory."""
    size, family = first.size, first.model.family
    black_rwc = np.broadcast_to(np.float32(0), (size.height, size.width, 3))
    how = handing(clip.strategy, story.handover, family.vae_temporal)
    tail_frwc = None
    if clip.previous is not None:
        tail_frwc = np.broadcast_to(black_rwc, (how.tail(clip), *black_rwc.shape))
    seen = Seen(
        start_rwc=None if clip.start is None else black_rwc,
        end_rwc=None if clip.end is None else black_rwc,
        tail_frwc=tail_frwc,
        latents_ctrw=np.zeros((1, family.latent_frames(clip.num_frames), 1, 1), np.float32),
    )
    return how.condition(seen, clip)


def _shape(clip: ClipPlan, given: Given) -> tuple[int, ...]:
    prefix = 0 if given.prefix_frwc is None else len(given.prefix_frwc)
    ends = (given.image_rwc is not None, given.last_image_rwc is not None)
    return clip.num_frames, prefix, *ends


def _inputs(ask: Ask) -> Inputs:
    """Return stand-ins as they are; the maker's own way would write every pixel of them."""
    return Inputs(
        image=ask.image_rwc,
        last_image=ask.last_image_rwc,
        video=ask.prefix_frwc,
        prefix_latents=ask.prefix_latents_ctrw,
    )


def _ask(clip: ClipPlan, given: Given) -> Ask:
    return Ask(
        prompt=clip.prompt,
        seed=clip.seed,
        num_frames=clip.num_frames,
        image_rwc=given.image_rwc,
        last_image_rwc=given.last_image_rwc,
        prefix_frwc=given.prefix_frwc,
        renoise=given.renoise,
        history_noise=given.noise,
    )
