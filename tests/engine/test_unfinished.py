"""Runs stopped while denoising: kept on disk, and taken up again to the very same bits."""

import errno
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.engine.cases import CASES, Case, engine_for, inputs_of, make_plan
from vidgen.errors import BadMedia, BadRequest, Cancelled, NotFound
from vidgen.events import CancelToken, Progress
from vidgen.families import family
from vidgen.latents import load_latents
from vidgen.unfinished import load_unfinished

T2V = Case(family("wan2.1-t2v"), "t2v")


def stopped(case: Case, path: Path, after: int, **fields: Any) -> Any:
    """Stop a run after a step; return its plan and what was said."""
    made, token = make_plan(case, num_inference_steps=4, **fields), CancelToken()

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and (event.stage, event.done) == ("denoise", after):
            token.cancel()

    with pytest.raises(Cancelled, match="at denoising step") as caught:
        engine_for(case).run(made, inputs_of(case), on=stop, cancel=token, latents_path=path)
    return made, caught.value.message


@pytest.mark.parametrize("scheduler", ["unipc", "euler"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_going_on_gives_the_same_bits(case: Case, scheduler: str, tmp_path: Path) -> None:
    path = tmp_path / "a.latents.safetensors"
    made, _ = stopped(case, path, 2, scheduler=scheduler)
    engine = engine_for(case)
    wanted = engine.run(made, inputs_of(case)).latents
    seen: list[int] = []

    def note(event: Any) -> None:
        if isinstance(event, Progress) and event.stage == "denoise":
            seen.append(event.done)

    clip = engine.run(made, inputs_of(case), on=note, resume=load_unfinished(path))
    assert torch.equal(clip.latents, wanted)
    assert seen == list(range(3, made.steps + 1))
    assert clip.trace.forwards == (made.steps - 2) * (2 if made.guided else 1)


def test_a_run_may_be_stopped_more_than_once_and_be_sparse(tmp_path: Path) -> None:
    path = tmp_path / "a.latents.safetensors"
    sparse = {"attention": "topk", "min_tokens": 0, "query_block": 8, "key_block": 8,
              "density": 0.25, "dense_steps": 0.5}  # fmt: skip
    made, _ = stopped(T2V, path, 1, **sparse)
    token = CancelToken()

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and event.done == 3:
            token.cancel()

    engine = engine_for(T2V)
    with pytest.raises(Cancelled):
        engine.run(made, on=stop, cancel=token, latents_path=path, resume=load_unfinished(path))
    again = load_unfinished(path)
    assert again.step == 3
    assert torch.equal(engine.run(made, resume=again).latents, engine.run(made).latents)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"seed": 12}, "seed"),
        ({"prompt": "a blue cube"}, "prompt"),
        ({"num_inference_steps": 6}, "num_inference_steps"),
        ({"guidance_scale": 2.0}, "guidance_scale"),
        ({"width": 96}, "width"),
        ({"attention": "topk", "min_tokens": 0}, "attention"),
    ],
)
def test_another_run_does_not_take_it_up(tmp_path: Path, fields: Any, word: str) -> None:
    path = tmp_path / "a.latents.safetensors"
    stopped(T2V, path, 2)
    other = make_plan(T2V, **{"num_inference_steps": 4, **fields})
    with pytest.raises(BadRequest, match=rf"cannot go on: .*{word}.* changed"):
        engine_for(T2V).run(other, resume=load_unfinished(path))


def test_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.latents.safetensors"
    stopped(T2V, path, 2)
    with pytest.raises(BadMedia, match="stopped while denoising; `vidgen decode` goes on"):
        load_latents(path)
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    changed = {**tensors, "latents": tensors["latents"] + 1}
    without = {name: value for name, value in tensors.items() if name != "latents"}
    for wrong in (changed, without):
        save_file(wrong, path, metadata=metadata)
        with pytest.raises(BadMedia, match="is not a whole unfinished run"):
            load_unfinished(path)
    path.write_bytes(b"x")
    with pytest.raises(BadMedia, match="is not a file of latents"):
        load_unfinished(path)
    with pytest.raises(NotFound):
        load_unfinished(tmp_path / "none")


def test_a_run_stopped_before_its_first_step_leaves_nothing(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    path = tmp_path / "a.latents.safetensors"
    with pytest.raises(Cancelled):
        engine_for(T2V).run(make_plan(T2V), cancel=token, latents_path=path)
    assert not path.exists()


def test_a_full_disk_does_not_hide_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vidgen.unfinished.write_tensors", full)
    path = tmp_path / "a.latents.safetensors"
    _, said = stopped(T2V, path, 1)
    assert "step 2 of 4. It could not be kept in " in said
    assert "No space left" in said
    assert not path.exists()
