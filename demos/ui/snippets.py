"""Snippets: a request as a command line, as curl and as Python; each makes the same clip."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from demos.ui.form import FILES
from vidgen.cli.options import option_name

KEY_VARIABLE = "VIDGEN_API_KEY"


def command_line(request: Mapping[str, Any], address: str) -> str:
    """Return the command that makes the clip: on this machine, or where its inputs were sent."""
    words = ["vidgen", "generate", shlex.quote(str(request["prompt"]))]
    for name, value in request.items():
        if name != "prompt":
            words += [word for item in _items(value) for word in _option(name, item)]
    if any(name in request for name in (*FILES, "reference_images")):
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
    key = f'os.environ["{KEY_VARIABLE}"]' if keyed else '"none"'
    more = f", extra_body={extra!r}" if extra else ""
    return (
        ("import os\n\n" if keyed else "")
        + "from openai import OpenAI\n\n"
        + f"client = OpenAI(base_url={address + '/v1'!r}, api_key={key})\n"
        + f"video = client.videos.create_and_poll(prompt={request['prompt']!r}{more})\n"
        + 'client.videos.download_content(video.id).write_to_file(f"{video.id}.mp4")\n'
    )
