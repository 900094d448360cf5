"""Snippets: a request as a command line, as curl and as Python; each makes the same clip."""

import json
import shlex
from collections.abc import Mapping
from pprint import pformat
from typing import Any

from demos.ui.form import FILES, MOST_CLIPS
from vidgen.cli.options import option_name

KEY_VARIABLE = "VIDGEN_API_KEY"
_SEED = "the seed of each"  # stands for a variable
_SAVED = 'client.videos.download_content(video.id).write_to_file(f"{video.id}.mp4")\n'


def command_line(request: Mapping[str, Any], address: str) -> str:
    """Return the command that makes the clip: on this machine, or where its inputs were sent."""
    prompt = str(request["prompt"])
    first = _option("prompt", prompt) if prompt.startswith("-") else [shlex.quote(prompt)]
    words = ["vidgen", "generate", *first]
    for name, value in request.items():
        if name != "prompt":
            words += [word for item in _items(value) for word in _option(name, item)]
    if any(name in request for name in FILES):
        words += ["--server", address]
    return " ".join(words)


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _option(name: str, value: Any) -> list[str]:
    if value is True:
        return [option_name(name)]
    text = str(value)
    if text.startswith("-"):  # it would be taken for an option
        return [shlex.quote(f"{option_name(name)}={text}")]
    return [option_name(name), shlex.quote(text)]


def curl(request: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    """Return the call of curl that makes the job, or one for each clip: a job is one video."""
    asked, count, seed = _apart(request)
    if count > 1:
        body = json.dumps(
            asked | {"seed": _SEED} if seed is not None else asked, ensure_ascii=False
        )
        one = _called(shlex.quote(body).replace(f'"{_SEED}"', "'$seed'"), address, keyed=keyed)
        each = range(count) if seed is None else range(seed, seed + count)
        return f"for seed in {' '.join(map(str, each))}; do\n{one}\ndone"
    return _called(shlex.quote(json.dumps(dict(request), ensure_ascii=False)), address, keyed=keyed)


def _apart(request: Mapping[str, Any]) -> tuple[dict[str, Any], int, int | None]:
    """Return a request without number and seed, the number of its clips, and the first's seed."""
    rest = {name: value for name, value in request.items() if name not in ("n", "seed")}
    count, seed = request.get("n"), request.get("seed")
    seed = seed if isinstance(seed, int) and seed >= 0 else None
    if not isinstance(count, int) or not 1 <= count <= MOST_CLIPS:
        count = 1  # the server says no to what stays
    return rest, count, seed


def _called(body: str, address: str, *, keyed: bool) -> str:
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if keyed else ""
    return (
        f"curl {shlex.quote(address + '/v1/videos')}{key} \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {body}"
    )


def python(request: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    """Return a program, for the official client, that makes the clip and saves it."""
    asked, count, seed = _apart(request)
    if count > 1:
        asked |= {} if seed is None else {"seed": _SEED}
        lines = (_polled(asked).replace(repr(_SEED), "seed") + _SAVED).splitlines()
        first = 0 if seed is None else seed
        loop = "".join(f"    {line}\n" for line in lines)
        return (
            f"{_client(address, keyed=keyed)}for seed in range({first}, {first + count}):\n{loop}"
        )
    return _client(address, keyed=keyed) + _polled(request) + _SAVED


def _polled(request: Mapping[str, Any]) -> str:
    extra = {name: value for name, value in request.items() if name != "prompt"}
    more = f", extra_body={extra!r}" if extra else ""
    return f"video = client.videos.create_and_poll(prompt={request['prompt']!r}{more})\n"


def story_snippets(story: Mapping[str, Any], address: str, *, keyed: bool) -> list[tuple[str, str]]:
    """Return the ways of asking for the same long video, each with its name.

    The command line, which takes pictures beside the story's file, is left out where the story
    names any: those are the server's.
    """
    body = json.dumps(dict(story), ensure_ascii=False, indent=1)
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if keyed else ""
    written = f"<<'STORY'\n{body}\nSTORY\n"
    command = [("CLI", f"cat > story.json {written}vidgen chain --storyboard story.json")]
    called = (
        f"curl {shlex.quote(address + '/v1/storyboards')}{key} \\\n"
        f"  -H 'Content-Type: application/json' -d @- {written}"
    )
    return [
        *([] if _has_pictures(story) else command),
        ("curl", called),
        ("Python", _story_python(story, address, keyed=keyed)),
    ]


def _has_pictures(story: Mapping[str, Any]) -> bool:
    parts = [story, story.get("request", {}), *story.get("shots", ())]
    names = ("image", "last_image", "end_image", "reference_images")
    return any(part.get(name) for part in parts for name in names if isinstance(part, Mapping))


def _story_python(story: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    asked = pformat(dict(story), width=80, sort_dicts=False)
    return (
        _client(address, keyed=keyed)
        + f"story = {asked}\n"
        + 'board = client.post("/storyboards", cast_to=object, body=story)\n'
        + 'video = client.videos.poll(board["id"])\n'
        + _SAVED
    )


def _client(address: str, *, keyed: bool) -> str:
    key = f'os.environ["{KEY_VARIABLE}"]' if keyed else '"none"'
    return (
        ("import os\n\n" if keyed else "")
        + "from openai import OpenAI\n\n"
        + f"client = OpenAI(base_url={address + '/v1'!r}, api_key={key})\n"
    )
