"""Making one clip of a chain: what it is given, the call to the maker, what is kept of it."""

# f frames  r rows  w columns  c channels
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chaining.clip_plan import ClipPlan, Source
from chaining.colour.latents import LatentStatistics, history_noise, pull_to
from chaining.colour_lock import correct
from chaining.maker import Ask, ClipMaker, EditLatents, Made
from chaining.recolour import Correction
from chaining.schedule import Schedule
from chaining.seam_score import seam_score
from chaining.seeds import clip_seed
from chaining.story import Story
from chaining.strategies import Given, Handing, Seen, handing
from chaining.takes import UNFINISHED, NewTake, Take, save_take
from vidgen.errors import BadOutput, BadRequest, Unsupported
from vidgen.events import Callback, CancelToken
from vidgen.media import VideoWriter, read_video
from vidgen.media.disk import remove

Float = npt.NDArray[np.float32]
Takes = Mapping[int, Take]

SEAM = 2  # last frames of a clip that are kept for the seam score


class Making:
    """Makes the clips of one schedule into takes.

    unfinished  folder in which the maker keeps what it has done of a clip
    """

    def __init__(self, story: Story, schedule: Schedule, maker: ClipMaker, root: Path) -> None:
        self._story = story
        self._schedule = schedule
        self._maker = maker
        self._root = root
        self.unfinished = root.parent / UNFINISHED

    def make(
        self,
        plan: ClipPlan,
        trial: int,
        takes: Takes,
        on: Callback | None,
        cancel: CancelToken | None,
    ) -> Take:
        """Make one clip and put it on disk.

        trial   0, or which further seed is tried
        takes   those that it takes something over from, at least
        Raises  Cancelled, BadOutput and whatever the maker raises
        """
        how = self._handing(plan)
        given = how.condition(self._seen(plan, how, takes), plan)
        seed = plan.seed if trial == 0 else clip_seed(plan.seed, f"trial {trial}")
        noise = max(given.noise, self._noise(plan, given, takes))
        made = self._maker.make(self._ask(plan, given, seed, noise, takes), on, cancel)
        self._check(made, plan)
        correction = self._correct(plan, how, given, made, takes)
        ends = self._ends(plan, made, takes)
        new = NewTake(
            plan=plan,
            trial=trial,
            seed=seed,
            made=made,
            first=self._first(plan, takes),
            ends=ends,
            seam=self._seam(plan, made, correction, takes),
            correction=correction,
            tail_frwc=self._tail(plan, made.frames_frwc[:ends]),
            noise=noise,
        )
        take = save_take(self._root, new, self._schedule.fps)
        remove(self.unfinished)
        return take

    def _handing(self, plan: ClipPlan) -> Handing:
        return handing(plan.strategy, self._story.handover, self._maker.lengths.step)

    def _seen(self, plan: ClipPlan, how: Handing, takes: Takes) -> Seen:
        before = None if plan.previous is None else takes[plan.previous]
        tail_frwc = None
        if before is not None:
            tail_frwc = _last(before, how.tail(plan), plan)
            tail_frwc = before.correction.handed.apply(tail_frwc) if how.colours else tail_frwc
        return Seen(
            start_rwc=self._picture(plan.start, takes),
            end_rwc=self._picture(plan.end, takes),
            tail_frwc=tail_frwc,
            latents_ctrw=None if before is None or how.colours else before.latents_ctrw,
        )

    def _picture(self, source: Source | None, takes: Takes) -> Float | None:
        if source is None:
            return None
        if source.path is not None:
            return self._maker.picture(source.path)
        assert source.clip is not None
        take = takes[source.clip]
        frame_rwc = take.tail_frwc[-1] if source.at == "last" else take.head_rwc
        picture_rwc: Float = take.correction.handed.apply(frame_rwc[None])[0]
        return picture_rwc

    def _ask(self, plan: ClipPlan, given: Given, seed: int, noise: float, takes: Takes) -> Ask:
        return Ask(
            prompt=plan.prompt,
            seed=seed,
            num_frames=plan.num_frames,
            image_rwc=given.image_rwc,
            last_image_rwc=given.last_image_rwc,
            prefix_frwc=given.prefix_frwc,
            prefix_latents_ctrw=given.prefix_latents_ctrw,
            context_ctrw=given.context_ctrw,
            renoise=given.renoise,
            history_noise=noise,
            edit_latents=self._edit(plan, takes),
            keep=self.unfinished,
        )

    def _anchor(self, plan: ClipPlan, takes: Takes) -> Take | None:
        """Return the first clip of a clip's segment, None if that is the clip itself."""
        clips = [clip for clip in self._schedule.shown if clip.segment == plan.segment]
        first = next(clip for clip in clips if clip.kind == "clip")
        return None if first.index == plan.index else takes.get(first.index)

    def _statistics(self, plan: ClipPlan, takes: Takes, control: str) -> LatentStatistics | None:
        anchor = self._anchor(plan, takes)
        if anchor is None:
            return None
        latents_ctrw = anchor.latents_ctrw
        if latents_ctrw is None:
            raise Unsupported(
                f"{control} compares latents and this maker gives none; set it to 0.",
                field="controls",
            )
        return LatentStatistics.of(latents_ctrw)

    def _edit(self, plan: ClipPlan, takes: Takes) -> EditLatents | None:
        factor = self._story.controls.latent_adain
        anchor = self._statistics(plan, takes, "latent_adain") if factor else None
        return None if anchor is None else partial(pull_to, anchor=anchor, factor=factor)

    def _noise(self, plan: ClipPlan, given: Given, takes: Takes) -> float:
        """Noise that the story's control puts on what a clip continues from."""
        asked = self._story.controls.history_noise
        if plan.previous is None or given.renoise:
            return 0.0
        if asked != "auto":
            return float(asked)
        anchor = self._statistics(plan, takes, "history_noise=auto")
        latents_ctrw = takes[plan.previous].latents_ctrw
        if anchor is None or latents_ctrw is None:
            return 0.0
        return history_noise(latents_ctrw, anchor)

    def _check(self, made: Made, plan: ClipPlan) -> None:
        width, height = self._maker.size
        wanted = (plan.num_frames, height, width, 3)
        if made.frames_frwc.shape != wanted:
            raise BadOutput(
                f"Clip {plan.index} has frames of shape {made.frames_frwc.shape}, {wanted} were "
                "asked for."
            )

    def _correct(
        self, plan: ClipPlan, how: Handing, given: Given, made: Made, takes: Takes
    ) -> Correction:
        giver = plan.previous if plan.start is None else plan.start.clip
        before = None if giver is None else takes[giver].correction
        anchor = self._anchor(plan, takes)
        shown_before = [clip.index for clip in self._schedule.shown if clip.place == plan.place - 1]
        previous = takes.get(shown_before[0], anchor) if shown_before else anchor
        controls = self._story.controls
        return correct(
            controls,
            made.frames_frwc,
            given.twins_frwc,
            before,
            corrected=before is None or (how.colours and controls.colour_lock_at != "output"),
            anchor=None if anchor is None else anchor.all_shown,
            previous=lambda: _shown(previous),
        )

    def _first(self, plan: ClipPlan, takes: Takes) -> int:
        """Return the frame of the video at which a clip's frame 0 stands."""
        if plan.previous is None:
            return plan.first
        before = takes[plan.previous]
        return before.first + before.ends - plan.overlap

    def _ends(self, plan: ClipPlan, made: Made, takes: Takes) -> int:
        """Return after how many frames a clip ends; the one that continues it may choose."""
        ends = plan.stop - self._first(plan, takes)
        if plan.window == 1:
            return ends
        follower = next(clip for clip in self._schedule.clips if clip.previous == plan.index)
        late_frwc = made.frames_frwc[ends - plan.window : ends]
        return ends - plan.window + 1 + self._handing(follower).pick(late_frwc)

    def _tail(self, plan: ClipPlan, frames_frwc: Float) -> Float:
        """Return the last shown frames that later clips take over, exact or as mp4 has them."""
        followers = [clip for clip in self._schedule.clips if clip.previous == plan.index]
        count = max([SEAM, *(self._handing(clip).tail(clip) for clip in followers)])
        count = min(count, len(frames_frwc))
        if self._story.handover.through == "mp4":
            return self._through_mp4(frames_frwc)[-count:]
        return frames_frwc[-count:].copy()

    def _through_mp4(self, frames_frwc: Float) -> Float:
        with tempfile.TemporaryDirectory(prefix="vidgen-chain-") as folder:
            path = Path(folder, "clip.mp4")
            rows, columns = frames_frwc.shape[1:3]
            with VideoWriter(path, width=columns, height=rows, fps=self._schedule.fps) as writer:
                writer.write(frames_frwc)
            return np.concatenate(list(read_video(path)))

    def _seam(
        self, plan: ClipPlan, made: Made, correction: Correction, takes: Takes
    ) -> float | None:
        if plan.previous is None:
            return None
        before = takes[plan.previous]
        start = plan.overlap - plan.mixed // 2
        after_frwc = correction.shown.apply(made.frames_frwc[start : start + 2])
        tail_frwc = before.tail_frwc
        tail_frwc = tail_frwc[: len(tail_frwc) - plan.mixed // 2]
        return seam_score(before.correction.shown.apply(tail_frwc[-2:]), after_frwc)


def _shown(take: Take | None) -> Float:
    assert take is not None
    return take.all_shown()


def _last(take: Take, count: int, plan: ClipPlan) -> Float:
    """Return the last frames that a take hands over.

    Raises  BadRequest for a branch that takes over more than was kept
    """
    tail_frwc = take.tail_frwc
    if count > len(tail_frwc):
        raise BadRequest(
            f"Clip {plan.index} takes over {count} frames and take {take.name} kept "
            f"{len(tail_frwc)}; branch from clip {take.plan.index} (from_clip).",
            field="from_clip",
        )
    return tail_frwc[len(tail_frwc) - count :]
