"""The arms of the drift benchmark: ways to chain clips, each one thing away from another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.train.captions import caption
from benchmarks.train.world import FPS, MOTIONS, Scene, draw_scene, held_out_scenes
from chaining.story import Story, parse_story

CLIP_FRAMES = 33
OVERLAP = 9  # frames: three latent frames, as many as toyworld was trained to be given
_BACK = {"left": "right", "right": "left", "up": "down", "down": "up", "still": "still"}


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to chain.

    against  the arm that it differs from in one thing
    differs  that thing, in words
    """

    name: str
    against: str | None
    differs: str
    strategy: str = "last_frame"
    handover: Mapping[str, Any] = field(default_factory=dict)
    controls: Mapping[str, Any] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shared(self) -> int:
        """Frames that a clip has in common with the one before it."""
        return int(self.handover.get("overlap", 1)) if self.strategy == "overlap" else 1


_TODAY: dict[str, Any] = {"through": "mp4", "seeds": "same"}
_OVERLAP: dict[str, Any] = {"overlap": OVERLAP, "mode": "pin"}
_PLAIN = {"colour_lock": "off"}
_MATCHERS = ("anchor_clip", "reinhard_lab", "reinhard_lab_previous", "mkl", "histogram", "lowfreq")

TODAY = "today"
CLEAN = "float, new seeds"

CHAIN_ARMS = (
    Arm(TODAY, None, "last frame read back from the mp4, same seed", "last_frame", _TODAY, _PLAIN),
    Arm("float", TODAY, "hand-over in float", handover={"seeds": "same"}, controls=_PLAIN),
    Arm("new seeds", TODAY, "a seed for each clip", handover={"through": "mp4"}, controls=_PLAIN),
    Arm(CLEAN, TODAY, "both of these", controls=_PLAIN),
    Arm("overlap", CLEAN, f"{OVERLAP} frames shared", "overlap", _OVERLAP, _PLAIN),
    Arm(
        "overlap, noise 0.02", "overlap", "shared frames shown with noise 0.02", "overlap",
        {**_OVERLAP, "mode": "noise", "noise": 0.02}, _PLAIN,
    ),
    Arm(
        "overlap, noise 0.1", "overlap", "shared frames shown with noise 0.1", "overlap",
        {**_OVERLAP, "mode": "noise", "noise": 0.1}, _PLAIN,
    ),
    Arm(
        "overlap, renoise", "overlap", "shared frames noised along", "overlap",
        {**_OVERLAP, "mode": "renoise"}, _PLAIN,
    ),
    Arm("keyframes", CLEAN, "both ends of a clip from the first picture", "keyframes", {}, _PLAIN),
    Arm("pair_affine", CLEAN, "colour lock", controls={"colour_lock": "pair_affine"}),
    *(Arm(name, CLEAN, "colour lock", controls={"colour_lock": name}) for name in _MATCHERS),
    Arm("latent AdaIN 0.5", CLEAN, "statistics of latents pulled half way",
        controls={**_PLAIN, "latent_adain": 0.5}),
    Arm("latent AdaIN 1", CLEAN, "statistics of latents pulled all the way",
        controls={**_PLAIN, "latent_adain": 1.0}),
    Arm("overlap, pair_affine", "overlap", "colour lock", "overlap", _OVERLAP,
        {"colour_lock": "pair_affine"}),
)  # fmt: skip

DENSE = "dense"
SPARSE_ARMS = (
    Arm(DENSE, None, "every key is read"),
    *(
        Arm(f"topk {density:g}", DENSE, f"density {density:g}",
            request={"attention": "topk", "density": density})
        for density in (0.25, 0.125)
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plot:
    """What happens in one story: the scene of each clip, and its seed."""

    scenes: tuple[Scene, ...]
    prompts: tuple[str, ...]
    seed: int


def plots(number: int, clips: int, seed: int = 0) -> list[Plot]:
    """Return stories of one thing that goes to and fro, so that it never leaves the picture."""
    rng = np.random.default_rng([seed, 43])
    found = []
    for index in range(number):
        scene = draw_scene(rng, held_out_scenes())
        scenes = tuple(_turned(scene, clip) for clip in range(clips))
        found.append(Plot(scenes, tuple(caption(one) for one in scenes), 1000 + index))
    return found


def _turned(scene: Scene, clip: int) -> Scene:
    motion = scene.motion if clip % 2 == 0 else _BACK[scene.motion]
    assert motion in MOTIONS
    return Scene(scene.colour, scene.shape, scene.size, motion, scene.speed, scene.background)


def story_of(plot: Plot, arm: Arm, shape: tuple[int, int, int], steps: int) -> Story:
    """Write a plot as a story of one clip a shot, chained the arm's way.

    shape  frames, height and width of a clip
    """
    frames, height, width = shape
    later = Fraction(frames - arm.shared, FPS)
    shots = [
        {"prompt": prompt, "seconds": float(later if index else Fraction(frames, FPS))}
        for index, prompt in enumerate(plot.prompts)
    ]
    return parse_story(
        {
            "shots": shots,
            "seed": plot.seed,
            "strategy": arm.strategy,
            "handover": dict(arm.handover),
            "controls": dict(arm.controls),
            "request": {
                "model": "toyworld", "num_frames": frames, "height": height, "width": width,
                "num_inference_steps": steps, **arm.request,
            },
        }
    )  # fmt: skip
