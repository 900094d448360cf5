"""From a prompt to a file: python -m demos.quickstart "a small blue star moves up" star.mp4"""

import sys
from pathlib import Path

from vidgen import Engine, VideoRequest
from vidgen.device import this_machine
from vidgen.media import VideoWriter
from vidgen.plan import plan
from vidgen.recipe import recipe_text


def main(prompt: str = "a big red ball moves left", path: str = "out/quickstart.mp4") -> None:
    """Make one clip of the bundled toy model and write it to a file."""
    decided = plan(VideoRequest(prompt=prompt, seed=7), this_machine())
    print(*decided.adjustments, sep="\n")
    where = "cuda:0" if decided.device.kind == "cuda" else "cpu"
    engine = Engine.load(decided.model, device=where, dtype=decided.dtype, offload=decided.offload)
    clip = engine.run(decided)
    assert clip.frames is not None  # they are in memory unless a sink takes them
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    width, height = decided.size.width, decided.size.height
    with VideoWriter(path, width=width, height=height, fps=clip.fps, crop=clip.size,
                     recipe=recipe_text(clip.recipe), title=prompt) as writer:  # fmt: skip
        writer.write(clip.frames)
    print(f"{path}: {len(clip.frames)} frames, seed {clip.seed}, {clip.trace.seconds}")


if __name__ == "__main__":
    main(*sys.argv[1:])
