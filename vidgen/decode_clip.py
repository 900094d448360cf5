"""Decoding a clip's latents: whole or in tiles, with one more try where memory runs out."""

from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from vidgen.adjustment import Adjustment
from vidgen.clip import Clip
from vidgen.components import release
from vidgen.decode import decode_groups, group_count
from vidgen.errors import BadOutput, DoesNotFit
from vidgen.events import CancelToken
from vidgen.families import Family
from vidgen.latents import SavedLatents
from vidgen.oom import is_out_of_memory
from vidgen.running import Run
from vidgen.sink import Output
from vidgen.workload import Tiling

_ATTEMPTS: dict[Tiling, tuple[bool, ...]] = {
    "whole": (False,),
    "tiles": (True,),
    "whole_then_tiles": (False, True),
}


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """What is decoded.

    latents  float32 (channels, latent frames, rows, columns)
    context  latents that come right before them: decoded with them and left out
    """

    vae: Any
    latents: torch.Tensor
    context: torch.Tensor | None
    family: Family

    @property
    def joined(self) -> torch.Tensor:
        """Context and latents."""
        if self.context is None:
            return self.latents
        return torch.cat([self.context, self.latents], dim=1)

    @property
    def skipped(self) -> int:
        """Frames at the start that come of the context."""
        return 0 if self.context is None else self.context.shape[1] * self.family.vae_temporal


def decode_all(
    frames: Frames, tiling: Tiling, run: Run, cancel: CancelToken, out: Output, device: torch.device
) -> None:
    """Decode into `out`; a try that runs out of memory is noted in the run's trace.

    Raises  Cancelled, BadOutput, DoesNotFit
    """
    for tiled in _ATTEMPTS[tiling]:
        run.trace.vae_tiled = tiled
        try:
            _decode_into(frames, run, cancel, out)
            return
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if tiled or tiling == "whole":
                raise _does_not_fit(tiled, kept=run.latents_kept) from error
        change = Adjustment("vae_tiling", "auto", "on", "decoding whole ran out of memory")
        run.trace.adjustments.append(change)
        release(device)
        out.restart()


def finished_clip(saved: SavedLatents, run: Run, out: Output) -> Clip:
    """Return the clip whose frames `out` has taken."""
    made = saved.recipe["plan"]
    return Clip(
        frames=out.kept(),
        latents=saved.latents,
        fps=Fraction(made["fps"]),
        size=(made["export_width"], made["export_height"]),
        seed=made["seed"],
        recipe=out.recipe(),
        trace=run.trace,
    )


def _decode_into(frames: Frames, run: Run, cancel: CancelToken, out: Output) -> None:
    tiled, before, latents = run.trace.vae_tiled, frames.skipped, frames.joined
    total = group_count(frames.vae, latents, tiled=tiled)
    groups = decode_groups(frames.vae, latents, tiled=tiled, cancel=cancel)
    with closing(groups):
        for done, group_frwc in enumerate(groups, start=1):
            if not np.isfinite(group_frwc).all():
                kept = "; the latents are kept" if run.latents_kept else ""
                raise BadOutput(
                    f"The decoded frames are not finite from group {done} of {total}{kept}.",
                    code="nan_frames",
                )
            skipped = min(before, len(group_frwc))
            before -= skipped
            if len(group_frwc) > skipped:
                out.write(group_frwc[skipped:])
            run.report("decode", done, total, None)


def _does_not_fit(tiled: bool, *, kept: bool) -> DoesNotFit:
    how = ", in tiles too" if tiled else ""
    ways = ["decode on a machine with more memory"]
    if not tiled:
        ways.append("decode in tiles (vae_tiling=on)")
    held = "the latents are kept; " if kept else ""
    return DoesNotFit(
        f"Decoding ran out of memory{how}; {held}{' or '.join(ways)}.", field="vae_tiling"
    )
