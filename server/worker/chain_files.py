"""The files of a finished chain: the video, its lossless twin, latents and stills."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaining.assemble import assemble
from chaining.chain import Chain, Result
from chaining.extend import Extended, Original, extended_recipe
from chaining.extend_write import Encoding, write_extended
from chaining.maker import ClipMaker
from chaining.manifest import read_manifest
from chaining.recipe import chain_recipe
from chaining.takes import LATENTS, Take
from server.worker.stills import write_stills
from vidgen.media import PROFILES, probe_video, read_frame
from vidgen.media.disk import remove

Told = Callable[[int, int], None]


def video_name(chain: Chain, original: Original | None) -> str:
    """Return the name of the video's file, by the format that is asked for or that holds it."""
    return f"video{PROFILES[_profile(chain, original)].suffix}"


def write_chain(
    chain: Chain,
    maker: ClipMaker,
    result: Result,
    original: Original | None,
    folder: Path,
    told: Told,
) -> dict[str, Path]:
    """Write the files into a folder; return them by variant.

    result    with the video already written there, unless the chain goes on with a video
    original  the video that it goes on with
    told      called with how many of how many are written
    Raises    BadRequest, BadMedia, DoesNotFit
    """
    video, master = folder / video_name(chain, original), folder / "master.mkv"
    recipe = chain_recipe(read_manifest(chain.folder), result.takes)
    join = chain.story.handover.join
    if original is None:
        told(1, 3)
        assemble(
            result.takes,
            master,
            how=join,
            fps=maker.fps,
            export_size=maker.export_size,
            profile="master",
            crf=None,
            recipe=recipe,
        )
    else:
        extended = Extended(original, result.takes)
        recipe = extended_recipe(recipe, extended)
        crf = chain.story.request.get("crf")
        title = chain.story.shots[1].prompt[:80]
        delivered = Encoding(_profile(chain, original), crf)
        write_extended(extended, video, delivered, join=join, recipe=recipe, title=title)
        told(1, 3)
        lossless = Encoding("master", None)
        write_extended(extended, master, lossless, join=join, recipe=recipe, title=title)
    told(2, 3)
    info = probe_video(master)
    stills = write_stills(
        folder, lambda number: read_frame(master, number), info.num_frames, info.fps
    )
    files = {"video": video, "master": master, **stills, **_latents(result.takes, folder)}
    told(3, 3)
    return files


def chain_facts(chain: Chain, result: Result, video: Path) -> dict[str, Any]:
    """Return what is known of the video, JSON-ready."""
    info = probe_video(video)
    return {
        "width": info.width,
        "height": info.height,
        "fps": str(info.fps),
        "num_frames": info.num_frames,
        "seconds": float(info.num_frames / info.fps),
        "seed": chain.schedule.seed,
        "adjustments": [item.as_dict() for item in chain.schedule.adjustments],
        "clips": [
            {
                "index": take.plan.index,
                "place": take.plan.place,
                "start": take.first + take.plan.overlap,
                "stop": take.first + take.ends,
                "seed": take.seed,
                "seam": take.seam,
            }
            for take in result.takes
        ],
    }


def _profile(chain: Chain, original: Original | None) -> str:
    asked = chain.story.request.get("format")
    if asked is not None:
        return str(asked)
    odd = original is not None and (original.info.width % 2 or original.info.height % 2)
    return "webm" if odd else "mp4"  # mp4 holds no odd size


def _latents(takes: tuple[Take, ...], folder: Path) -> dict[str, Path]:
    """Return the latents of the last clip, from which a video can be gone on with."""
    source = takes[-1].folder / LATENTS
    if not source.is_file():
        return {}
    target = folder / "latents.safetensors"
    remove(target)
    os.link(source, target)
    return {"latents": target}
