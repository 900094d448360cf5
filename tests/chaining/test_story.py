"""Stories from files and lines, and the sentences that refuse."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from chaining.colour.matchers import MATCHERS
from chaining.controls import Handover, Lock, StrategyName
from chaining.story import Story, parse_story
from chaining.story_files import read_story, story_of_lines
from chaining.strategies import strategies
from vidgen.errors import BadMedia, BadRequest, NotFound
from vidgen.request import parse_request

SHOTS = [
    {"prompt": "a cat walks", "seconds": 5},
    {"prompt": "it sleeps", "seconds": 2.5, "transition": "cut", "image": "bed.png", "seed": 7},
]


def test_every_reader_gives_the_same_story(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"shots": SHOTS, "seed": 3}))
    (tmp_path / "a.yaml").write_text(
        "seed: 3\nshots:\n- {prompt: a cat walks, seconds: 5s}\n"
        "- {prompt: it sleeps, seconds: 2.5, transition: cut, image: bed.png, seed: 7}\n"
    )
    (tmp_path / "a.csv").write_text(
        "prompt,seconds,transition,image,seed\na cat walks,5,,,\nit sleeps,2.5,cut,bed.png,7\n"
    )
    stories = [read_story(tmp_path / f"a.{kind}", seed=3) for kind in ("json", "yaml", "csv")]
    assert stories[0] == stories[1] == stories[2]
    assert stories[0].shots[1].image == str(tmp_path / "bed.png")
    by_hand = {**SHOTS[1], "image": str(tmp_path / "bed.png")}
    assert stories[0] == parse_story({"shots": [SHOTS[0], by_hand], "seed": 3})


def test_lines() -> None:
    made = story_of_lines(["5s: a cat walks", " 2.5 s :it sleeps: deeply "], strategy="overlap")
    assert [(shot.seconds, shot.prompt) for shot in made.shots] == [
        (5.0, "a cat walks"),
        (2.5, "it sleeps: deeply"),
    ]
    assert made.strategy == "overlap"


def test_the_request_takes_every_name_of_a_video_request() -> None:
    made = story_of_lines(["1s: a"], request={"size": "96x64", "steps": 4, "attention": "topk"})
    request = parse_request({**made.request, "prompt": "b"})
    assert (request.width, request.height, request.num_inference_steps) == (96, 64, 4)
    assert request.attention == "topk"


def test_the_names_of_strategies_and_locks_are_those_of_their_tables() -> None:
    assert get_args(StrategyName) == tuple(strategies(Handover(), 4))
    assert get_args(Lock) == ("off", "pair_affine", *MATCHERS)


def test_a_story_is_read_again_from_its_own_data() -> None:
    made = parse_story({"shots": SHOTS, "request": {"fps": "24000/1001", "lora": ["a:0.5"]}})
    again = parse_story(json.loads(made.model_dump_json()))
    assert again == made


def shot(**fields: Any) -> dict[str, Any]:
    return {"shots": [{"prompt": "a", "seconds": 1, **fields}]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "shots is missing"),
        ({"shots": []}, "no shots"),
        (shot(seconds=0), "shots.0.seconds=0"),
        (shot(seconds=-1), "shots.0.seconds=-1"),
        (shot(seconds=601), "600"),
        (shot(seconds="soon"), "write 5 or 5s"),
        ({"shots": [{"prompt": "a", "seconds": 600}] * 7}, "4200 s, at most 3600"),
        ({"shots": [{"prompt": "a", "seconds": 1}] * 501}, "at most 500"),
        (shot(secnds=1), "did you mean seconds"),
        (shot(transition="cut"), "leave its transition out"),
        (shot(prompt=""), "shots.0.prompt"),
        (shot(prompt="  "), "shots.0.prompt='  ': must not be blank"),
        (shot(seconds=True), "shots.0.seconds=True: must not be true or false"),
        ({**shot(), "shots": 3}, "shots=3: must be a list"),
        ({**shot(), "controls": 3}, "controls=3: must be an object"),
        ({**shot(), "stategy": "single"}, "did you mean strategy"),
        ({**shot(), "strategy": "magic"}, "strategy='magic'"),
        ({**shot(), "controls": {"colour_lok": "off"}}, "did you mean colour_lock"),
        ({**shot(), "controls": {"best_of_seams": 4}}, "best_of_seams=4"),
        ({**shot(), "controls": {"history_noise": 0.9}}, "history_noise"),
        ({**shot(), "handover": {"overlap": 0}}, "overlap=0"),
        ({**shot(), "request": {"setps": 4}}, "did you mean steps"),
        ({**shot(), "request": {"steps": 0}}, "num_inference_steps=0"),
        ({**shot(), "request": {"seed": 4}}, "seed is not for every clip"),
        ({**shot(), "request": {"prompt": "x"}}, "prompt is not for every clip"),
        ({**shot(), "request": {"seconds": 4}}, "num_frames here is the length of one clip"),
        ({**shot(last_image="b.png"), "end_image": "a.png"}, "give one"),
        ([1], "not a list"),
        (None, "not a NoneType"),
    ],
)
def test_a_bad_story_is_one_sentence(data: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as refused:
        parse_story(data)
    assert "\n" not in refused.value.message
    assert len(refused.value.message) < 300


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_story(tmp_path / "none.yaml")
    with pytest.raises(BadRequest, match=r"\.csv"):
        read_story(tmp_path / "story.txt")
    for name, text in (("a.yaml", "shots: [\n"), ("a.json", "{"), ("a.csv", "prompt\na,b\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadMedia, match=name):
            read_story(tmp_path / name)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(BadMedia):
        read_story(tmp_path / "b.yaml")


def test_a_line_without_a_length_is_refused() -> None:
    with pytest.raises(BadRequest, match="5s: a cat walks"):
        story_of_lines(["a cat walks"])


def test_a_shot_with_its_own_picture_begins_anew() -> None:
    made: Story = parse_story({"shots": [SHOTS[0], {**SHOTS[0], "image": "b.png"}, SHOTS[0]]})
    assert [made.transition(shot) for shot in range(3)] == ["cut", "cut", "continue"]
