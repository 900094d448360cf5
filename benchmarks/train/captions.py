"""The caption grammar: a scene said in words, in five ways, and read back exactly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.train.world import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, Scene

_SIZE_WORDS = {"big": ("big", "large"), "small": ("small", "little")}
_SPEED_WORDS = {"quickly": ("quickly", "fast"), "slowly": ("slowly", "gently"), "none": ("",)}
_TEMPLATES = (
    "a {size} {colour} {shape} {move} over the {background}",
    "on the {background} , a {size} {colour} {shape} {move}",
    "a {colour} {shape} , {size} , {move} , {background} background",
    "the {shape} is {colour} and {size} and {move} over the {background}",
    "{background} , {size} {colour} {shape} , {move}",
)
_MOVES = ("moves {speed} {motion}", "goes {speed} {motion}", "{speed} moving {motion}")
_STILL = ("stays still", "rests still", "is still")
NUM_TEMPLATES = len(_TEMPLATES)


def caption(
    scene: Scene, rng: np.random.Generator | None = None, template: int | None = None
) -> str:
    """Say a scene in words; the first template and first synonyms without `rng`."""

    def pick(words: tuple[str, ...]) -> str:
        return words[0] if rng is None else words[int(rng.integers(len(words)))]

    if template is None:
        template = 0 if rng is None else int(rng.integers(NUM_TEMPLATES))
    if scene.motion == "still":
        move = pick(_STILL)
    else:
        move = pick(_MOVES).format(speed=pick(_SPEED_WORDS[scene.speed]), motion=scene.motion)
    return _TEMPLATES[template].format(
        size=pick(_SIZE_WORDS[scene.size]),
        colour=scene.colour,
        shape=scene.shape,
        move=move,
        background=scene.background,
    )


def vocabulary() -> list[str]:
    """Every word the grammar can say, sorted."""
    text = " ".join((*_TEMPLATES, *_MOVES, *_STILL))
    words = {word for word in text.split() if "{" not in word}
    for group in (*_SIZE_WORDS.values(), *_SPEED_WORDS.values()):
        words.update(group)
    words.update(COLOURS, SHAPES, MOTIONS, BACKGROUNDS)
    return sorted(words - {""})


def parse(text: str) -> Scene:
    """Read a caption of the grammar back into its scene.

    Raises      ValueError naming the attribute that the text does not say
    """
    words = text.lower().replace(",", " ").split()

    def find(what: str, groups: Mapping[str, tuple[str, ...]]) -> str:
        for name, synonyms in groups.items():
            if any(word in synonyms for word in words):
                return name
        raise ValueError(f"caption {text!r} names no {what}; use one of {', '.join(groups)}.")

    def same(names: object) -> dict[str, tuple[str, ...]]:
        return {str(name): (str(name),) for name in names}  # type: ignore[attr-defined]

    motion = find("motion", same(MOTIONS))
    speeds = {name: words for name, words in _SPEED_WORDS.items() if name != "none"}
    return Scene(
        colour=find("colour", same(COLOURS)),
        shape=find("shape", same(SHAPES)),
        size=find("size", _SIZE_WORDS),
        motion=motion,
        speed="none" if motion == "still" else find("speed", speeds),
        background=find("background", same(BACKGROUNDS)),
    )
