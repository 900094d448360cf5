"""Fields: names, and what a body may say beside the video."""

import pytest

from server.api.fields import JobOptions, request_names, sort_fields
from server.problems import Problem


def test_no_option_has_a_name_of_a_field() -> None:
    assert not set(JobOptions.model_fields) & set(request_names())


@pytest.mark.parametrize(
    ("given", "param", "hint"),
    [
        ({"promt": "x"}, "promt", "prompt"),
        ({"prompt": "x", "webhok_url": "x"}, "webhok_url", "webhook_url"),
        ({"prompt": "x", "output_path": "/tmp/x"}, "output_path", ""),
        ({"prompt": "x", "save_result_path": "/tmp/x"}, "save_result_path", ""),
        ({"prompt": "x", "priority": 7}, "priority", ""),
        ({"prompt": "x", "pool": "A b"}, "pool", ""),
        ({"story": {"shots": []}, "prompt": "x"}, "prompt", "story"),
        ({"story": "x"}, "story", "object"),
    ],
)
def test_what_is_refused_is_named(given: dict[str, object], param: str, hint: str) -> None:
    with pytest.raises(Problem) as caught:
        sort_fields(given)
    assert caught.value.param == param
    assert hint in caught.value.message


def test_null_is_the_same_as_left_out() -> None:
    asked = sort_fields({"prompt": "x", "seed": None, "title": None})
    assert asked.request == {"prompt": "x"}
    assert asked.options == JobOptions()


def test_one_lora_or_tag_in_a_form_is_a_list_of_one() -> None:
    asked = sort_fields({"prompt": "x", "lora": "style:0.5", "tags": "a"})
    assert asked.request["lora"] == ["style:0.5"]
    assert asked.options.tags == ("a",)
