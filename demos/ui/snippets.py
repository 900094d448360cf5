"""Snippets: a request as a command line, as curl and as Python; each makes the same clip."""

import json
import shlex
from collections.abc import Mapping
from pprint import pformat
from typing import Any

from demos.ui.form import FILES
from vidgen.cli.options import option_name

KEY_VARIABLE = "VIDGEN_API_KEY"
_SAVED = 'client.videos.download_content(video.id).write_to_file(f"{video.id}.mp4")\n'


def command_line(request: Mapping[str, Any], address: str) -> str:
    """Return the command that makes the clip: on this machine, or where its inputs were sent."""
    words = ["vidgen", "generate", shlex.quote(str(request["prompt"]))]
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
    return [option_name(name), shlex.quote(str(value))]


def curl(request: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    """Return the call of curl that makes the job."""
    body = json.dumps(dict(request), ensure_ascii=False)
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if keyed else ""
    return (
        f"curl {shlex.quote(address + '/v1/videos')}{key} \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"
    )


def python(request: Mapping[str, Any], address: str, *, keyed: bool) -> str:
    """Return a program, for the official client, that makes the clip and saves it."""
    extra = {name: value for name, value in request.items() if name != "prompt"}
    more = f", extra_body={extra!r}" if extra else ""
    return (
        _client(address, keyed=keyed)
        + f"video = client.videos.create_and_poll(prompt={request['prompt']!r}{more})\n"
        + _SAVED
    )


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
