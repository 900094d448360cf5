"""VideoRequest: names, aliases, shorthands, bounds and the sentences that refuse."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidgen.errors import BadRequest
from vidgen.request import VideoRequest, aliases_of, fields, group_of, parse_request


def ask(**data: Any) -> VideoRequest:
    return parse_request({"prompt": "a ball", **data})


def test_every_field_has_a_text_a_group_and_unique_names() -> None:
    seen: set[str] = set()
    for name, info in fields().items():
        assert info.description
        assert info.description.endswith(".")
        assert group_of(info)
        for word in (name, *aliases_of(info)):
            assert word not in seen, word
            seen.add(word)


@pytest.mark.parametrize(
    ("data", "field", "value"),
    [
        ({"steps": 7}, "num_inference_steps", 7),
        ({"cfg": 4}, "guidance_scale", 4.0),
        ({"shift": 5}, "flow_shift", 5.0),
        ({"n_prompt": "x"}, "negative_prompt", "x"),
        ({"video_length": "5s"}, "seconds", 5.0),
        ({"frame_num": 33}, "num_frames", 33),
        ({"seconds": "2.5s"}, "seconds", 2.5),
        ({"seed": -1}, "seed", None),
        ({"fps": "24000/1001"}, "fps", Fraction(24000, 1001)),
        ({"fps": 12.5}, "fps", Fraction(25, 2)),
        ({"fps": "16"}, "fps", Fraction(16)),
        ({"size": "832x480"}, "height", 480),
        ({"size": "832*480"}, "width", 832),
        ({"target_shape": [480, 832]}, "width", 832),
        ({"aspect": "9:16", "resolution": "720p"}, "height", 1280),
        ({"aspect": "1:1", "res": "480p"}, "width", 480),
        ({"resolution": "480p"}, "width", 854),
        ({"aspect": "9:16"}, "aspect", "9:16"),
    ],
)
def test_aliases_and_shorthands(data: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(ask(**data), field) == value


def test_every_alias_reaches_its_field() -> None:
    samples: dict[str, Any] = {
        "negative_prompt": "x", "aspect": "1:1", "preset": "exact", "image": "a", "last_image": "a",
        "video": "a",
        "fit": "crop", "num_frames": 5, "fps": 8, "num_inference_steps": 3, "guidance_scale": 2,
        "guidance_scale_2": 2, "flow_shift": 2, "boundary_ratio": 0.5, "scheduler": "euler",
        "seed": 3, "n": 2, "loras": ["a:1"], "attention_backend": "sdpa",
    }  # fmt: skip
    for name, info in fields().items():
        for alias in aliases_of(info):
            if name in ("prefix_frames", "strength"):
                request = ask(video="v", **{alias: 1})
            else:
                request = ask(**{alias: samples[name]})
            assert name in request.given(), alias


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"setps": 3}, ["setps", "steps"]),
        ({"steps": 900}, ["num_inference_steps=900", "200"]),
        ({"prompt": ""}, ["prompt"]),
        ({"frames": 5, "num_frames": 3}, ["same field"]),
        ({"num_frames": 5, "seconds": 3}, ["length"]),
        ({"size": "12"}, ["WIDTHxHEIGHT"]),
        ({"size": "64x64", "width": 3}, ["size"]),
        ({"aspect": "wide"}, ["aspect"]),
        ({"resolution": "4k"}, ["480p"]),
        ({"fps": "fast"}, ["rate"]),
        ({"fps": "1e999999999"}, ["rate"]),
        ({"fps": "1/0"}, ["rate"]),
        ({"size": "64x64", "res": "480p"}, ["size and res"]),
        ({"resolution": "480p", "res": "480p"}, ["resolution and res"]),
        ({"aspect": "16:9", "width": 64}, ["shape"]),
        ({"aspect": "0:9"}, ["aspect"]),
        ({"loras": [""]}, ["loras", "path"]),
        ({"prompt": "x" * 9000}, ["prompt", "8192"]),
        ({"x" * 500: 1}, ["unknown field"]),
        ({"fps": 0}, ["fps", "more than 0"]),
        ({"seconds": "soon"}, ["duration"]),
        ({"seed": -2}, ["seed=-2", "at least 0"]),
        ({"seed": 2**63}, ["seed=9223372036854775808: must be at most 9223372036854775807"]),
        ({"seed": True}, ["seed=True: must not be true or false"]),
        ({"seconds": False}, ["seconds=False: must not be true or false"]),
        ({"seconds": 1e9}, ["must be at most"]),
        ({"strict": "perhaps"}, ["strict='perhaps': must be true or false"]),
        ({"steps": "many"}, ["num_inference_steps='many': must be a whole number"]),
        ({"prompt": " \n"}, ["prompt=", "must not be blank"]),
        ({"prompt": "a\0b"}, ["prompt=", "holds NUL"]),
        ({"image": "a\0b"}, ["image=", "holds NUL"]),
        ({"attention": "some"}, ["attention='some': must be one of 'dense', 'topk'"]),
        ({"prefix_frames": 4}, ["video"]),
        ({"mask": "m.png"}, ["video"]),
        ({"strength": 0.5}, ["video"]),
        ({"video": "v", "prefix_frames": 4, "image": "i"}, ["one of them"]),
        ({"loras": ["x:99"]}, ["loras", "10"]),
        ({"alpha_background": "red"}, ["alpha_background"]),
        ({"output_path": "/etc/passwd"}, ["output_path"]),
    ],
)
def test_refusals_name_the_field_the_value_and_the_bound(
    data: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(BadRequest) as caught:
        ask(**data)
    for word in words:
        assert word in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a.safetensors", ("a.safetensors", 1.0, "both")),
        ("a.safetensors:0.8", ("a.safetensors", 0.8, "both")),
        ("dir/a:-1:low", ("dir/a", -1.0, "low")),
        ("a:high", ("a", 1.0, "high")),
    ],
)
def test_lora_text(text: str, parts: tuple[str, float, str]) -> None:
    (lora,) = ask(loras=[text]).loras
    assert (lora.path, lora.weight, lora.target) == parts


def test_given_round_trips() -> None:
    request = ask(size="832x480", fps="24000/1001", loras=["a:0.5:low"], seconds="5s", seed=3)
    assert parse_request(request.given()) == request
    assert set(request.given()) == {"prompt", "width", "height", "fps", "loras", "seconds", "seed"}


@given(st.dictionaries(st.sampled_from([*fields(), "size", "aspect", "junk"]), st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=8), st.lists(st.integers(), max_size=3)
), max_size=6))  # fmt: skip
def test_any_data_is_a_request_or_one_sentence(data: dict[str, Any]) -> None:
    try:
        request = parse_request(data)
    except BadRequest as error:
        assert error.message.endswith(".")
    else:
        assert isinstance(request, VideoRequest)
