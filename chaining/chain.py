"""Chain: a story made into one long video, clip by clip, in a folder from which it can go on."""

import time
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from chaining.advice import Advice, after_clip, before_run
from chaining.assemble import assemble, check_output
from chaining.clip_plan import ClipPlan
from chaining.events import ClipFinished, OnChain
from chaining.files import locked, write_json
from chaining.maker import ClipMaker
from chaining.making import Making
from chaining.manifest import NAME, Manifest, new_manifest, read_manifest, refuse_changes
from chaining.metering import Metering
from chaining.recipe import chain_recipe
from chaining.schedule import Schedule, make_schedule
from chaining.story import Story
from chaining.takes import Take, clear_parts, open_take, takes_of
from chaining.voice import clip_voice
from vidgen.errors import BadMedia, BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken
from vidgen.media.disk import remove

if TYPE_CHECKING:
    from chaining.drift.drift import Drift

DRIFT = "drift.json"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What a run left.

    state   finished, or stopped where drift_stop ended it
    video   the file, None where none was asked for or no clip is shown yet
    takes   in the order of the video, as far as it is whole
    """

    state: str
    video: Path | None
    num_frames: int
    takes: tuple[Take, ...]
    schedule: Schedule
    drift: "Drift | None"
    advice: tuple[Advice, ...]


class _File(TypedDict):
    fps: Fraction
    export_size: tuple[int, int]
    profile: str
    crf: int | None


@dataclass(slots=True)
class _Work:
    """One run: takes so far by clip, and the clock."""

    manifest: Manifest
    metering: Metering | None
    takes: dict[int, Take] = field(default_factory=dict)
    advice: list[Advice] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)


class Chain:
    """One story, one maker, one folder. Use it from one thread at a time."""

    def __init__(
        self, story: Story, maker: ClipMaker, folder: Path, *, measure: bool = True
    ) -> None:
        """Decide every clip; nothing is made or written yet.

        folder   of the chain; a story without a seed has the one that it was begun with there
        measure  run the drift meter
        Raises   BadRequest, Unsupported, BadMedia
        """
        known = read_manifest(folder).seed if (folder / NAME).is_file() else None
        self.story = story
        self.folder = folder
        self.schedule = make_schedule(story, maker.lengths, maker.fps, maker.capabilities, known)
        self.advice = before_run(story, self.schedule)
        self._maker = maker
        self._measure = measure
        self._root = folder / "takes"
        self._making = Making(story, self.schedule, maker, self._root)
        if story.controls.drift_stop and not measure:
            raise BadRequest(
                "drift_stop needs the drift meter; leave one of drift_stop and measure=False out.",
                field="controls",
            )

    def run(
        self,
        output: Path | None = None,
        *,
        on: OnChain | None = None,
        cancel: CancelToken | None = None,
        resume: bool = False,
        from_clip: int | None = None,
        remake: bool = False,
    ) -> Result:
        """Make the clips that are missing and assemble the video.

        A run that is cancelled or fails assembles the clips that are finished before it raises.
        output     the video's file; None makes clips only
        on         called with ChainProgress, ClipFinished and Preview
        cancel     looked at between clips and, by the maker, inside of them
        resume     go on with the chain that the folder holds
        from_clip  make this clip (its number of making) and all later ones anew; old takes stay
        remake     make a take anew whose files are damaged
        Raises     Busy, Cancelled, BadRequest, BadMedia and what the maker raises
        """
        if output is not None:
            check_output(output, size=self._maker.size, **self._file())
        with locked(self.folder):
            clear_parts(self.folder)
            work = self._begin(resume=resume, from_clip=from_clip, remake=remake)
            try:
                state = self._make_all(work, on, cancel or CancelToken())
            except Exception as error:
                state = "stopped" if isinstance(error, Cancelled) else "failed"
                try:
                    self._deliver(work, state, output)
                except (VidgenError, OSError) as second:
                    error.add_note(f"What is finished could not be assembled: {second}")
                raise
            return self._deliver(work, state, output)

    def _begin(self, *, resume: bool, from_clip: int | None, remake: bool) -> _Work:
        manifest = new_manifest(self.story, self._maker.identity, self.schedule)
        held = (self.folder / NAME).is_file()
        if held and not resume:
            raise BadRequest(f"{self.folder} holds a chain already; resume it, or name another.")
        if not held and any(takes_of(self._root, clip.index) for clip in self.schedule.clips):
            raise BadRequest(
                f"{self.folder} holds takes but no {NAME} that says of which chain; put it back, "
                "or name another folder."
            )
        if from_clip is not None:
            self._check_branch(from_clip, resume=resume)
        if resume:
            old = read_manifest(self.folder)
            refuse_changes(old, manifest, from_clip)
            manifest = replace(manifest, chosen=old.chosen, superseded=old.superseded)
        if from_clip is not None:
            later = [
                path.name
                for clip in self.schedule.clips[from_clip:]
                for path in takes_of(self._root, clip.index)
            ]
            manifest = manifest.without(later)
            remove(self._making.unfinished)  # it may have been begun under other controls
        work = _Work(manifest, Metering(self.schedule) if self._measure else None)
        work.advice.extend(self.advice)
        self._find_takes(work, remake=remake)
        work.manifest.save(self.folder)
        if work.metering is not None:
            work.metering.take_up(work.takes)
            work.metering.advance(work.takes)  # a crash can come between a take and its features
        return work

    def _check_branch(self, from_clip: int, *, resume: bool) -> None:
        last = len(self.schedule.clips) - 1
        if not resume:
            raise BadRequest(f"from_clip={from_clip} branches from a chain; give resume too.")
        if not 0 <= from_clip <= last:
            raise BadRequest(f"from_clip={from_clip} is not a clip of this chain; use 0 to {last}.")

    def _find_takes(self, work: _Work, *, remake: bool) -> None:
        """Read the takes that are finished, also one that the manifest does not name yet."""
        for plan in self.schedule.clips:
            trials = self._trials(work, plan, remake=remake)
            if len(trials) == self._wanted(plan):
                self._choose(work, plan, trials)

    def _trials(self, work: _Work, plan: ClipPlan, *, remake: bool) -> dict[int, Take]:
        found = {}
        for path in takes_of(self._root, plan.index):
            if path.name in work.manifest.superseded:
                continue
            try:
                take = open_take(path)
            except BadMedia:
                if not remake:
                    raise
                work.manifest = work.manifest.without([path.name])
                continue
            if take.plan != plan:  # of an earlier branch that had this many clips
                work.manifest = work.manifest.without([path.name])
                continue
            found[take.trial] = take
        return found

    def _wanted(self, plan: ClipPlan) -> int:
        return self.story.controls.best_of_seams if plan.previous is not None else 1

    def _choose(self, work: _Work, plan: ClipPlan, trials: dict[int, Take]) -> Take:
        """Let the take with the best seam count."""
        take = min(trials.values(), key=lambda item: (item.seam or 0.0, item.trial))
        work.takes[plan.index] = take
        work.manifest = work.manifest.with_take(plan.index, take.name)
        return take

    def _make_all(self, work: _Work, on: OnChain | None, cancel: CancelToken) -> str:
        for plan in self.schedule.clips:
            if plan.index in work.takes:
                continue
            cancel.check(f"before clip {plan.index}")
            take = self._make(work, plan, on, cancel)
            drift = work.metering.advance(work.takes) if work.metering is not None else None
            found = after_clip(plan.index, take.correction, drift)
            work.advice.extend(found)
            if on is not None:
                on(ClipFinished(plan.index, len(self.schedule.clips), take, drift, found))
            failed = drift is not None and drift.verdict.overall == "fail"
            if failed and self.story.controls.drift_stop:
                return "stopped"
        return "finished"

    def _make(self, work: _Work, plan: ClipPlan, on: OnChain | None, cancel: CancelToken) -> Take:
        trials = self._trials(work, plan, remake=False)
        for trial in range(self._wanted(plan)):
            if trial not in trials:
                done = tuple(work.takes.values())
                voice = (
                    None if on is None else clip_voice(self.schedule, plan, done, work.began, on)
                )
                trials[trial] = self._making.make(plan, trial, work.takes, voice, cancel)
        take = self._choose(work, plan, trials)
        work.manifest.save(self.folder)
        return take

    def _file(self) -> _File:
        request = self.story.request
        return {
            "fps": self._maker.fps,
            "export_size": self._maker.export_size,
            "profile": request.get("format", "mp4"),
            "crf": request.get("crf"),
        }

    def _deliver(self, work: _Work, state: str, output: Path | None) -> Result:
        """Assemble the beginning of the video that is whole, and say so in the manifest."""
        work.manifest = replace(work.manifest, state=state)
        work.manifest.save(self.folder)
        takes: list[Take] = []
        for clip in self.schedule.shown:
            if clip.index not in work.takes:
                break
            takes.append(work.takes[clip.index])
        num_frames = 0
        if takes and output is not None:
            recipe = chain_recipe(work.manifest, takes)
            how = self.story.handover.join
            num_frames = assemble(takes, output, how=how, recipe=recipe, **self._file())
        drift = None if work.metering is None else work.metering.report()
        if drift is not None:
            write_json(self.folder / DRIFT, drift.as_dict())
        return Result(
            state=state,
            video=output if num_frames else None,
            num_frames=num_frames,
            takes=tuple(takes),
            schedule=self.schedule,
            drift=drift,
            advice=tuple(work.advice),
        )
