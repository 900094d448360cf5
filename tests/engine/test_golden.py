"""Golden parity: what the engine makes equals unmodified diffusers bit for bit."""

from pathlib import Path

import pytest
import torch

from tests.engine.cases import CASES, GOLDEN, Case, engine_for, golden, inputs_of, lora, make_plan
from vidgen.engine import Engine
from vidgen.errors import BadRequest, Cancelled
from vidgen.events import CancelToken

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_equals_unmodified_diffusers(case: Case, tmp_path: Path) -> None:
    engine = engine_for(case)
    made = make_plan(case)
    clip = engine.run(made, inputs_of(case))
    wanted = golden(case, engine.components, made, inputs_of(case))
    assert torch.equal(clip.latents, wanted)
    disturb(engine, case, tmp_path)
    assert torch.equal(engine.run(made, inputs_of(case)).latents, wanted)


def disturb(engine: Engine, case: Case, folder: Path) -> None:
    """Other requests: with a LoRA, of another size, one cancelled and one failed."""
    inputs = inputs_of(case)
    style = lora(folder / "style.safetensors", {"blocks.0.attn1.to_q": (48, 48)})
    styled = engine.run(make_plan(case, loras=[style], num_inference_steps=2), inputs)
    assert styled.trace.loras[0]["matched"] == 1
    fit = {"fit": "crop"} if inputs.sizes else {}
    engine.run(make_plan(case, width=96, num_inference_steps=2, **fit), inputs)
    token = CancelToken()
    with pytest.raises(Cancelled):
        engine.run(make_plan(case), inputs, cancel=token, on=lambda _: token.cancel())
    wrong = lora(folder / "wrong.safetensors", {"elsewhere.to_q": (8, 8)})
    with pytest.raises(BadRequest, match="matches none"):
        engine.run(make_plan(case, loras=[wrong]), inputs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_input_changes_the_output(case: Case) -> None:
    """Else the parity above proves nothing."""
    engine = engine_for(case)
    base = engine.run(make_plan(case), inputs_of(case)).latents
    changes = {
        "prompt": make_plan(case, prompt="a small blue cube moves up over the grass"),
        "seed": make_plan(case, seed=12),
        "steps": make_plan(case, num_inference_steps=5),
    }
    for name, changed in changes.items():
        other = engine.run(changed, inputs_of(case)).latents
        assert (other - base).abs().max() > 1e-4, name
    if case.task != "t2v":
        other = engine.run(make_plan(case, inputs_of(case, 30)), inputs_of(case, 30)).latents
        assert (other - base).abs().max() > 1e-4
