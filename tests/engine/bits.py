"""Run every task of every tiny family and print the bits, one line a run; with "twice", again."""

import hashlib
import sys

import torch

from tests.engine.cases import CASES, inputs_of, make_plan
from vidgen.engine import Engine
from vidgen.latents import latents_hash
from vidgen.tiny import tiny_components, tiny_model


def main() -> None:
    torch.set_num_threads(1)
    engines: dict[str, Engine] = {}
    for again in range(2 if sys.argv[1:] == ["twice"] else 1):
        for case in CASES:
            row = case.family
            if row.name not in engines:
                engines[row.name] = Engine(tiny_model(row), tiny_components(row))
            made = make_plan(case, num_inference_steps=2, num_frames=9)
            clip = engines[row.name].run(made, inputs_of(case))
            assert clip.frames is not None
            frames = hashlib.sha256(clip.frames.tobytes()).hexdigest()
            print(case.name, again, latents_hash(clip.latents), frames)


if __name__ == "__main__":
    main()
