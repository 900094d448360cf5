"""Planning over all families: tasks, legal sizes and counts, adjustments, strict errors."""

import dataclasses
import json
import subprocess
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidgen.device import named
from vidgen.errors import BadRequest, DoesNotFit, NotFound, Unsupported, VidgenError
from vidgen.families import FAMILIES, Family
from vidgen.inputs import Inputs
from vidgen.models import KNOWN, Model, known_names, resolve
from vidgen.plan import Plan, plan
from vidgen.request import parse_request
from vidgen.tiny import tiny_model


def picture(width: int, height: int) -> Any:
    return np.zeros((height, width, 3), np.float32)


def frames(count: int, width: int = 64, height: int = 64) -> Any:
    return np.zeros((count, height, width, 3), np.float32)


def model_of(family: Family) -> Model:
    for model in KNOWN:
        if model.family is family:
            return model
    return tiny_model(family)


def inputs_for(family: Family) -> Inputs:
    """What the family needs to do its first task; its shape is that of the size asked below."""
    task = family.tasks[0]
    if task == "i2v":
        return Inputs(image=picture(832, 480))
    if task == "flf2v":
        return Inputs(image=picture(832, 480), last_image=picture(832, 480))
    if task == "vace":
        return Inputs(references=(picture(832, 480),))
    return Inputs()


def ask(
    family: Family, inputs: Inputs | None = None, device: str = "nvidia-h200", **data: Any
) -> Plan:
    given_inputs = inputs_for(family) if inputs is None else inputs
    if "fit" not in data and given_inputs.sizes and {"width", "height"} & set(data):
        data["fit"] = "crop"
    request = parse_request({"prompt": "a ball", **data})
    return plan(request, named(device), given_inputs, model_of(family))


def changed(made: Plan) -> dict[str, tuple[Any, Any]]:
    return {item.field: (item.asked, item.used) for item in made.adjustments}


ROWS = pytest.mark.parametrize("family", FAMILIES, ids=lambda row: row.name)


@ROWS
def test_a_bare_request_is_legal_and_needs_no_adjustment(family: Family) -> None:
    made = ask(family)
    recipe = made.model.recipe
    assert not made.adjustments
    across, down = family.size_multiple
    assert made.size.width % across == 0
    assert made.size.height % down == 0
    assert (made.num_frames - 1) % family.vae_temporal == 0
    assert made.fps == recipe.fps
    assert made.guidance_scale == recipe.guidance_scale
    assert made.scheduler == recipe.scheduler
    assert len(made.seeds) == 1
    strict = ask(family, strict=True)
    assert strict.seeds != made.seeds


@ROWS
@pytest.mark.parametrize(
    ("asked", "field", "used"),
    [
        ({"num_frames": 15}, "num_frames", 17),
        ({"num_frames": 80}, "num_frames", 81),
        ({"num_frames": 14}, "num_frames", 13),
        ({"num_frames": 4}, "num_frames", 5),
        ({"seconds": "5s", "fps": 16}, "seconds", 81 / 16),
        ({"seconds": "5s", "fps": 24}, "seconds", 121 / 24),
        ({"fps": 8}, "fps", None),
        ({"prompt": "ball " * 600}, "prompt", None),
        ({"guidance_scale": 1, "negative_prompt": "dark"}, "negative_prompt", None),
    ],
    ids=lambda value: str(value)[:24],
)
def test_an_illegal_ask_is_adjusted_or_refused_under_strict(
    family: Family, asked: dict[str, Any], field: str, used: Any
) -> None:
    made = ask(family, **asked)
    assert field in changed(made)
    if used is not None:
        assert changed(made)[field][1] == pytest.approx(used)
    with pytest.raises(BadRequest, match="strict") as caught:
        ask(family, strict=True, **asked)
    assert field in caught.value.message


@ROWS
@pytest.mark.parametrize(("width", "height"), [(854, 480), (1280, 720), (960, 540), (853, 479)])
def test_any_size_is_written_as_asked(family: Family, width: int, height: int) -> None:
    """The next larger legal size is made and its centre written; only odd sides lose a line."""
    made = ask(family, width=width, height=height)
    size = made.size
    across, down = family.size_multiple
    assert size.width % across == 0
    assert size.height % down == 0
    assert 0 <= size.width - size.export_width < across
    assert 0 <= size.height - size.export_height < down
    assert (size.export_width, size.export_height) == (width // 2 * 2, height // 2 * 2)
    legal = width % across == 0 and height % down == 0
    fields = {"width", "height"} & set(changed(made))
    assert bool(fields) is not legal
    if not legal:
        with pytest.raises(BadRequest, match="strict"):
            ask(family, width=width, height=height, strict=True)
    assert ask(family, width=width, height=height, format="png").size.export_width == width


def test_fps_alone_keeps_the_frame_count() -> None:
    for family in FAMILIES:
        made = ask(family, fps=8)
        assert made.num_frames == family.recipe.num_frames
        assert made.fps == 8


def test_token_arithmetic_of_the_published_shapes() -> None:
    expected = {
        "wan2.1-t2v-1.3b": ({}, 32_760), "wan2.1-t2v-14b": ({"size": "1280x720"}, 75_600),
        "wan2.2-ti2v-5b": ({}, 27_280), "toyworld-like": ({"size": "192x192", "frames": 81}, 3_024),
    }  # fmt: skip
    for name, (asked, tokens) in expected.items():
        model = tiny_model(FAMILIES[0]) if name == "toyworld-like" else resolve(name)
        made = plan(parse_request({"prompt": "x", **asked}), named("cpu"), Inputs(), model)
        assert made.grid.tokens == tokens == made.estimate.tokens


@pytest.mark.parametrize(
    ("inputs", "data", "task"),
    [
        (Inputs(), {}, "t2v"),
        (Inputs(image=picture(64, 64)), {}, "i2v"),
        (Inputs(last_image=picture(64, 64)), {}, "last"),
        (Inputs(image=picture(64, 64), last_image=picture(64, 64)), {}, "flf2v"),
        (Inputs(video=frames(5)), {"video": "v", "prefix_frames": 5}, "prefix"),
    ],
)
def test_inputs_decide_the_task(inputs: Inputs, data: dict[str, Any], task: str) -> None:
    assert ask(FAMILIES[0], inputs, **data).task == task


def test_a_task_the_model_lacks_names_what_does_it() -> None:
    family = {row.name: row for row in FAMILIES}["wan2.1-t2v"]
    with pytest.raises(Unsupported, match=r"wan2\.1-i2v"):
        ask(family, Inputs(image=picture(64, 64)))
    with pytest.raises(Unsupported, match="does not do"):
        ask(FAMILIES[0], Inputs(video=frames(9)), video="v")


@pytest.mark.parametrize(
    "data",
    [
        {"guidance_scale_2": 3.0}, {"boundary_ratio": 0.5}, {"conditioning_scale": 1.0},
        {"loras": ["a.safetensors:1:high"]},
    ],
)  # fmt: skip
def test_a_field_that_would_not_be_read_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="no effect"):
        ask(FAMILIES[0], **data)


def test_adaptive_keeps_the_shape_of_the_input() -> None:
    for name, family in ((row.name, row) for row in FAMILIES if "i2v" in row.tasks):
        for width, height in ((1000, 2000), (1920, 1080), (160, 90), (500, 500), (4032, 3024)):
            made = ask(family, Inputs(image=picture(width, height)))
            shape = made.size.width / made.size.height
            assert shape == pytest.approx(width / height, rel=0.13), name
            area = made.size.width * made.size.height
            wanted = made.model.recipe.width * made.model.recipe.height
            assert 0.7 < area / wanted < 1.35, name
            cut = abs(shape / (width / height) - 1)
            assert ("image" in changed(made)) == (cut > 0.0205), (name, width, height, cut)
    wan = {row.name: row for row in FAMILIES}["wan2.1-i2v"]
    cropped = ask(wan, Inputs(image=picture(1000, 2000)), width=832, height=480)
    assert "image" in changed(cropped)
    with pytest.raises(BadRequest, match="adaptive"):
        ask(wan, fit="adaptive", width=832, height=480)


def test_every_input_that_loses_something_is_named() -> None:
    toy = FAMILIES[0]
    both = Inputs(image=picture(96, 96), last_image=picture(96, 160))
    made = ask(toy, both, width=96, height=96)
    assert set(changed(made)) == {"last_image"}
    only_last = ask(toy, Inputs(last_image=picture(160, 96)), width=96, height=96)
    assert set(changed(only_last)) == {"last_image"}
    assert not ask(toy, Inputs(image=picture(192, 192)), width=96, height=96).adjustments
    vace = {row.name: row for row in FAMILIES}["wan2.1-vace"]
    with pytest.raises(BadRequest, match="mask"):
        ask(vace, Inputs(video=frames(9), mask=frames(9, 64, 32)), video="v", mask="m")


def test_legal_asks_of_every_input_need_no_adjustment() -> None:
    toy, vace = FAMILIES[0], {row.name: row for row in FAMILIES}["wan2.1-vace"]
    still = picture(96, 96)
    clean = [
        ask(toy, Inputs(image=still), strict=True),
        ask(toy, Inputs(image=still, last_image=still), strict=True),
        ask(toy, Inputs(last_image=still), strict=True),
        ask(toy, Inputs(video=frames(5, 96, 96), video_fps=Fraction(16)), video="v",
            prefix_frames=5, strict=True),
        ask(vace, Inputs(video=frames(9, 832, 480), video_fps=Fraction(16)), video="v",
            strict=True),
    ]  # fmt: skip
    assert not any(made.adjustments for made in clean)


def test_prefix_of_another_rate_is_told() -> None:
    given_inputs = Inputs(video=frames(5, 96, 96), video_fps=Fraction(30))
    made = ask(FAMILIES[0], given_inputs, video="v", prefix_frames=5)
    assert changed(made)["video"] == ("30 fps", "16 fps")


def test_video_seconds_are_bounded_and_told() -> None:
    wan = {row.name: row for row in FAMILIES}["wan2.1-t2v"]
    given_inputs = Inputs(video=frames(16, 832, 480), video_fps=Fraction(16))
    made = ask(wan, given_inputs, video="v", strength=0.5, seconds=0.9)
    assert made.num_frames == 13
    assert changed(made)["seconds"] == (0.9, 0.8125)
    with pytest.raises(BadRequest, match="seconds=2 is more than the video has"):
        ask(wan, given_inputs, video="v", strength=0.5, seconds=2)


def test_tiling_follows_the_ask() -> None:
    toy = FAMILIES[0]
    assert ask(toy).vae_tiling == "whole_then_tiles"
    assert ask(toy, vae_tiling="off").vae_tiling == "whole"
    assert ask(toy, vae_tiling="on").vae_tiling == "tiles"
    assert ask(toy, strict=True).vae_tiling == "whole"


def test_long_prompts_in_any_language_are_counted_where_the_tokenizer_is() -> None:
    model = resolve("toyworld")
    for text in ("ball " * 40, "球" * 20 + " 球" * 60):
        made = plan(parse_request({"prompt": text}), named("cpu"), Inputs(), model)
        assert made.prompt_tokens.exact
        assert "prompt" in changed(made)
    negative = parse_request({"prompt": "a ball", "negative_prompt": "dark " * 50})
    assert "negative_prompt" in changed(plan(negative, named("cpu"), Inputs(), model))


def test_weak_guidance_is_told() -> None:
    made = ask(FAMILIES[0], guidance_scale=0.5)
    assert changed(made)["guidance_scale"] == (0.5, 1.0)
    assert not made.guided
    wan = {row.name: row for row in FAMILIES}["wan2.2-t2v-a14b"]
    with pytest.raises(Unsupported, match="guidance_scale_2 has no effect"):
        ask(wan, guidance_scale=1, guidance_scale_2=4)


def test_a_missing_lora_is_found_before_anything_is_loaded() -> None:
    with pytest.raises(NotFound, match="absent"):
        ask(FAMILIES[0], loras=["absent.safetensors"])


def test_recipes_are_the_authors() -> None:
    """Steps, shift, guidance and size of Wan's own scripts for each checkpoint."""
    expected = {
        "wan2.1-t2v-1.3b": (50, 8.0, 6.0, (832, 480)),
        "wan2.1-t2v-14b": (50, 5.0, 5.0, (832, 480)),
        "wan2.1-i2v-14b-480p": (40, 3.0, 5.0, (832, 480)),
        "wan2.1-i2v-14b-720p": (40, 5.0, 5.0, (1280, 720)),
        "wan2.1-flf2v-14b": (50, 16.0, 5.0, (1280, 720)),
        "wan2.1-vace-14b": (50, 16.0, 5.0, (832, 480)),
        "wan2.2-t2v-a14b": (40, 12.0, 4.0, (1280, 720)),
        "wan2.2-i2v-a14b": (40, 5.0, 3.5, (1280, 720)),
        "wan2.2-ti2v-5b": (50, 5.0, 5.0, (1280, 704)),
    }
    for name, wanted in expected.items():
        recipe = resolve(name).recipe
        size = (recipe.width, recipe.height)
        shift = recipe.shift_for(*size)
        assert (recipe.num_inference_steps, shift, recipe.guidance_scale, size) == wanted, name


def test_aspect_alone_keeps_the_models_number_of_pixels() -> None:
    for family in FAMILIES:
        made = ask(family, aspect="16:9")
        recipe = made.model.recipe
        area = made.size.width * made.size.height / (recipe.width * recipe.height)
        assert 0.7 < area < 1.35
        assert made.size.width / made.size.height == pytest.approx(16 / 9, rel=0.13)


def test_one_side_alone_gets_the_other_from_the_shape() -> None:
    made = ask(FAMILIES[0], width=128)
    assert (made.size.width, made.size.height) == (128, 128)
    assert not made.adjustments


def test_video_to_video_counts() -> None:
    wan = {row.name: row for row in FAMILIES}["wan2.1-t2v"]
    made = ask(wan, Inputs(video=frames(15), video_fps=Fraction(25)), video="v", strength=0.5)
    assert made.num_frames == 13
    assert changed(made)["num_frames"] == (15, 13)
    assert made.steps == 25
    assert made.fps == 25
    with pytest.raises(BadRequest, match="more than the video has"):
        ask(wan, Inputs(video=frames(15)), video="v", num_frames=33)
    with pytest.raises(BadRequest, match="runs none"):
        ask(wan, Inputs(video=frames(15)), video="v", strength=0.01)


def test_prefix_counts() -> None:
    made = ask(FAMILIES[0], Inputs(video=frames(7)), video="v", prefix_frames=7)
    assert made.prefix_frames == 5
    assert changed(made)["prefix_frames"] == (7, 5)
    with pytest.raises(BadRequest, match="leaves nothing"):
        ask(FAMILIES[0], Inputs(video=frames(17)), video="v", prefix_frames=17)


def test_seeds() -> None:
    assert ask(FAMILIES[0], seed=5, n=3).seeds == (5, 6, 7)
    with pytest.raises(BadRequest, match="seed"):
        ask(FAMILIES[0], seed=2**63 - 1, n=2)
    assert ask(FAMILIES[0]).seeds != ask(FAMILIES[0]).seeds


def test_untrained_shapes_are_noted() -> None:
    assert any("beyond" in note for note in ask(FAMILIES[0], num_frames=161).notes)
    assert any("larger" in note for note in ask(FAMILIES[0], size="1024x1024").notes)


def test_offload_follows_memory_and_too_large_says_so() -> None:
    wan = {row.name: row for row in FAMILIES}["wan2.2-t2v-a14b"]
    assert ask(wan).offload == "none"
    assert ask(wan, device="nvidia-rtx-4090").offload in ("model", "group")
    tiny = dataclasses.replace(named("nvidia-rtx-4090"), memory_bytes=2 * 2**30)
    made = plan(parse_request({"prompt": "x"}), tiny, Inputs(), model_of(wan))
    with pytest.raises(DoesNotFit, match="GiB"):
        made.check_fits()


def test_guidance_of_the_second_expert() -> None:
    wan = {row.name: row for row in FAMILIES}["wan2.2-t2v-a14b"]
    assert (ask(wan).guidance_scale, ask(wan).guidance_scale_2) == (4.0, 3.0)
    assert ask(wan, guidance_scale=6).guidance_scale_2 == 6
    assert ask(wan, guidance_scale=6, guidance_scale_2=2).guidance_scale_2 == 2


def test_a_plan_is_complete_json() -> None:
    for name in known_names()[1:]:
        model = resolve(name)
        made = plan(parse_request({"prompt": "x"}), named("cpu"), inputs_for(model.family), model)
        text = json.dumps(made.as_dict())
        assert "auto" not in json.loads(text)["offload"]
        for field in dataclasses.fields(made):
            value = getattr(made, field.name)
            assert value is not None, field.name
            assert value != "auto", field.name


def test_planning_loads_neither_torch_nor_diffusers() -> None:
    code = (
        "import sys; from vidgen.plan import plan; from vidgen.request import parse_request\n"
        "from vidgen.device import named\n"
        "plan(parse_request({'model': 'wan2.1-t2v-1.3b', 'prompt': 'x'}), named('nvidia-h200'))\n"
        "print([m for m in ('torch', 'diffusers', 'transformers', 'av') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@settings(max_examples=200)
@given(
    family=st.sampled_from(FAMILIES),
    width=st.one_of(st.none(), st.integers(16, 3000)),
    height=st.one_of(st.none(), st.integers(16, 3000)),
    length=st.one_of(st.just({}), st.builds(lambda n: {"num_frames": n}, st.integers(1, 400)),
                     st.builds(lambda s: {"seconds": s}, st.floats(0.05, 20))),
    fps=st.one_of(st.none(), st.fractions(1, 60, max_denominator=1001)),
)  # fmt: skip
def test_any_size_and_length_is_a_legal_plan_or_one_sentence(
    family: Family, width: Any, height: Any, length: dict[str, Any], fps: Any
) -> None:
    try:
        made = ask(family, width=width, height=height, fps=fps, **length)
    except VidgenError as error:
        assert error.message.endswith(".")
        return
    assert made.size.width % family.size_multiple[0] == 0
    assert made.size.height % family.size_multiple[1] == 0
    assert (made.num_frames - 1) % family.vae_temporal == 0
    if width is not None and made.size.export_width != width:
        assert "width" in changed(made)
    if "num_frames" in length and made.num_frames != length["num_frames"]:
        assert "num_frames" in changed(made)
