"""Chain: a story made into one long video, clip by clip, in a folder from which it can go on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaining.advice import before_run, other_environment
from chaining.assemble import check_output
from chaining.chain_run import ChainRun, Result, file_kind
from chaining.events import OnChain, TakenUp
from chaining.files import locked
from chaining.maker import ClipMaker
from chaining.manifest import (
    NAME,
    Manifest,
    environment_changes,
    new_manifest,
    read_manifest,
    refuse_changes,
)
from chaining.metering import Metering
from chaining.schedule import make_schedule
from chaining.story import Story
from chaining.strategies.storyboard import refuse_unused
from chaining.takes import clear_parts, takes_from, takes_of
from vidgen.errors import BadRequest, Cancelled, VidgenError
from vidgen.events import CancelToken

__all__ = ["Chain", "ChainRun", "Result"]

NOT_ASSEMBLED = "What is finished could not be assembled"  # how the note on an error begins


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
        self.schedule = make_schedule(
            story, maker.lengths, maker.fps, maker.capabilities, known, begun=known is not None
        )
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
        write: Callable[[Result], object] | None = None,
    ) -> Result:
        """Make the clips that are missing and assemble the video.

        A run that is cancelled or fails assembles the clips that are finished before it raises.
        output     the video's file; None makes clips only
        on         called with ChainProgress, ClipFinished, Preview and, at first, with TakenUp
        cancel     looked at between clips and, by the maker, inside of them
        resume     go on with the chain that the folder holds
        from_clip  make this clip (its number of making) and all later ones anew; old takes stay
        remake     make a take anew whose files are damaged
        write      called with what is finished, while nobody else has the folder
        Raises     Busy, Cancelled, BadRequest, BadMedia and what the maker raises
        """
        if output is not None:
            check_output(output, size=self._maker.size, **file_kind(self.story, self._maker))
        with self.opened(resume=resume, from_clip=from_clip, remake=remake) as run:
            told = tuple(item for item in run.advice if item not in self.advice)
            if told and on is not None:
                on(TakenUp(told))
            try:
                run.make_all(on, cancel or CancelToken())
            except Exception as error:
                state = "stopped" if isinstance(error, Cancelled) else "failed"
                try:
                    _deliver(run, output, state, write)
                except (VidgenError, OSError) as second:
                    error.add_note(f"{NOT_ASSEMBLED}: {second}")
                raise
            return _deliver(run, output, None, write)

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
        old = read_manifest(self.folder) if resume else None
        if old is not None:
            manifest = self._going_on(old, manifest, from_clip)
        metering = Metering(self.schedule) if self._measure else None
        run = ChainRun(
            self.story, self._maker, self.schedule, self.folder, manifest, metering, self.advice
        )
        if from_clip is not None:
            run.forget_unfinished()  # it may have been begun under other controls
        run.find_takes(remake=remake)
        if old is not None and run.missing:
            run.advise(other_environment(environment_changes(old, manifest)))
        return run

    def _going_on(self, old: Manifest, new: Manifest, from_clip: int | None) -> Manifest:
        """Return the manifest with what counts of an earlier run."""
        refuse_changes(old, new, from_clip)
        new = replace(new, chosen=old.chosen, superseded=old.superseded)
        if from_clip is None:
            return new
        if _of_handover(new.story) != _of_handover(old.story):
            refuse_unused(self.story, self._maker.lengths.step)
        # Takes of clips that the chain no longer had are of a branch that was left.
        first = min(from_clip, len(old.schedule["clips"]))
        return new.without(takes_from(self._root, first))

    def _check_branch(self, from_clip: int, *, resume: bool) -> None:
        last = len(self.schedule.clips) - 1
        if not resume:
            raise BadRequest(f"from_clip={from_clip} branches from a chain; give resume too.")
        if not 0 <= from_clip <= last:
            raise BadRequest(f"from_clip={from_clip} is not a clip of this chain; use 0 to {last}.")


def _of_handover(story: dict[str, Any]) -> tuple[Any, Any]:
    return story.get("handover"), story.get("controls", {}).get("history_noise")


def _deliver(
    run: ChainRun,
    output: Path | None,
    state: str | None,
    write: Callable[[Result], object] | None,
) -> Result:
    result = run.deliver(output, state)
    if write is not None:
        write(result)
    return result
