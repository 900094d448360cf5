"""Chain: a story made into one long video, clip by clip, in a folder from which it can go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from chaining.advice import before_run
from chaining.assemble import check_output
from chaining.chain_run import ChainRun, Result, file_kind
from chaining.events import OnChain
from chaining.files import locked
from chaining.maker import ClipMaker
from chaining.manifest import NAME, new_manifest, read_manifest, refuse_changes
from chaining.metering import Metering
from chaining.schedule import make_schedule
from chaining.story import Story
from chaining.takes import clear_parts, takes_of
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken

__all__ = ["Chain", "ChainRun", "Result"]


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
            check_output(output, size=self._maker.size, **file_kind(self.story, self._maker))
        with self.opened(resume=resume, from_clip=from_clip, remake=remake) as run:
            try:
                run.make_all(on, cancel or CancelToken())
            except Exception as error:
                state = "stopped" if isinstance(error, Cancelled) else "failed"
                try:
                    run.deliver(output, state)
                except (VidgenError, OSError) as second:
                    error.add_note(f"What is finished could not be assembled: {second}")
                raise
            return run.deliver(output)

    @contextmanager
    def opened(
        self, *, resume: bool = False, from_clip: int | None = None, remake: bool = False
    ) -> Iterator[ChainRun]:
        """Have the folder to oneself for a while, to make clips one at a time; see `run`.

        Raises  Busy, BadRequest, BadMedia
        """
        with locked(self.folder):
            clear_parts(self.folder)
            yield self._begin(resume=resume, from_clip=from_clip, remake=remake)

    def _begin(self, *, resume: bool, from_clip: int | None, remake: bool) -> ChainRun:
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
        metering = Metering(self.schedule) if self._measure else None
        run = ChainRun(
            self.story, self._maker, self.schedule, self.folder, manifest, metering, self.advice
        )
        if from_clip is not None:
            run.forget_unfinished()  # it may have been begun under other controls
        run.find_takes(remake=remake)
        return run

    def _check_branch(self, from_clip: int, *, resume: bool) -> None:
        last = len(self.schedule.clips) - 1
        if not resume:
            raise BadRequest(f"from_clip={from_clip} branches from a chain; give resume too.")
        if not 0 <= from_clip <= last:
            raise BadRequest(f"from_clip={from_clip} is not a clip of this chain; use 0 to {last}.")
