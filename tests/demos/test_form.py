"""The form: made from the request alone, and what it says is what is asked."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given as cases
from hypothesis import strategies as st

from demos.ui.cards import preflight, problem, snippets
from demos.ui.form import entries, given, shown
from demos.ui.snippets import command_line, curl, python
from vidgen.request import VideoRequest, parse_request

ROOT = Path(__file__).resolve().parents[2]
FULL: dict[str, Any] = {
    "prompt": "a ball", "negative_prompt": "fog", "seed": 2**62 + 1, "num_inference_steps": 8,
    "guidance_scale": 2.5, "fps": "24000/1001", "dense_layers": [0, 1], "strict": True,
    "loras": [{"path": "a", "weight": 0.5, "target": "both"}], "attention": "topk",
    "reference_images": ["upload:a", "upload:b"], "aspect": "16:9", "seconds": 1.5, "crf": 0,
}  # fmt: skip


def test_every_field_of_a_request_has_a_widget() -> None:
    assert set(entries()) == set(VideoRequest.model_fields)


def test_an_empty_form_asks_for_nothing() -> None:
    assert given(entries(), shown(entries(), {})) == {}


def test_a_request_survives_the_form() -> None:
    asked = given(entries(), shown(entries(), FULL))
    assert parse_request(asked) == parse_request(FULL)
    assert asked["seed"] == 2**62 + 1


def test_what_is_no_number_is_left_to_the_server() -> None:
    values = dict(zip(entries(), shown(entries(), {}), strict=True)) | {"crf": "low"}
    assert given(entries(), [values[name] for name in entries()]) == {"crf": "low"}


def test_the_disk_is_told_for_all_clips() -> None:
    names = ("seconds", "device_bytes", "disk_bytes")
    cost = {name: {"low": 1e3, "high": 2.5e3} for name in names}
    plain = ("width", "height", "num_frames", "seconds", "fps", "tokens", "prompt_tokens",
             "attention", "attention_backend", "fidelity")  # fmt: skip
    found = dict.fromkeys(plain, 1)
    card = preflight({**found, "adjustments": [], "warnings": [], "estimate": cost}, 3)
    told = dict(re.findall(r"<dt>(\w+)</dt><dd>(.*?)</dd>", card))
    ends = {name: re.findall(r'(?:low|high)="([^"]+)"', told[name]) for name in told}
    assert ends["Disk"] == ["3000.0", "7500.0"]
    assert told["Disk"].endswith(" in all")
    assert ends["Memory"] == ["1000.0", "2500.0"]
    assert told["Time"].endswith(" × 3")


@cases(st.text("<>&\"'{}ab", min_size=1))
def test_no_text_becomes_markup(text: str) -> None:
    estimate: dict[str, Any] = {
        "width": 1, "height": 1, "num_frames": 1, "seconds": 1.0, "fps": text, "tokens": 1,
        "prompt_tokens": text, "attention": text, "attention_backend": text, "fidelity": text,
        "warnings": [text],
        "adjustments": [{"field": text, "asked": text, "used": text, "why": text}],
        "estimate": {name: {"low": 1.0, "high": 2.0}
                     for name in ("seconds", "device_bytes", "disk_bytes")},
    }  # fmt: skip
    bare = preflight(json.loads(json.dumps(estimate).replace(json.dumps(text), '""')), 1)
    for page, plain in ((preflight(estimate, 1), bare), (problem(text), problem(""))):
        assert page.count("<") == plain.count("<")
        assert page.count('"') == plain.count('"')
    parts = snippets({"prompt": text or "a", "model": text}, "http://x", keyed=True)
    assert parts.count("<") == snippets({"prompt": "a"}, "http://x", keyed=True).count("<")


def test_several_clips_are_several_calls() -> None:
    asked = {"prompt": "it's a ball", "n": 3, "seed": 7}
    sent = 'curl() { for word in "$@"; do case $word in {*) echo "$word";; esac; done; }; '
    done = subprocess.run(
        ["bash", "-c", sent + curl(asked, "http://x", keyed=False)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    bodies = [json.loads(line) for line in done.stdout.splitlines()]
    assert bodies == [{"prompt": "it's a ball", "seed": seed} for seed in (7, 8, 9)]
    made: list[Any] = []

    class Videos:
        def create_and_poll(self, **fields: Any) -> Any:
            made.append(fields)
            return SimpleNamespace(id="video_1")

        def download_content(self, _id: str) -> Any:
            return SimpleNamespace(write_to_file=lambda _path: None)

    program = python(asked, "http://x", keyed=False).replace("from openai import OpenAI\n", "")
    exec(program, {"OpenAI": lambda **_: SimpleNamespace(videos=Videos())})
    assert made == [{"prompt": "it's a ball", "extra_body": {"seed": seed}} for seed in (7, 8, 9)]
    assert "--n 3" in command_line(asked, "http://x")


@cases(st.text(st.characters(exclude_categories=["C"]), min_size=1))
def test_snippets_quote_what_a_shell_would_read(prompt: str) -> None:
    asked = {"prompt": prompt, "seed": 7}
    done = subprocess.run(
        ["bash", "-c", f"vidgen() {{ printf '%s\\n' \"$@\"; }}; {command_line(asked, 'http://x')}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first = f"--prompt={prompt}" if prompt.startswith("-") else prompt  # else it is an option
    assert done.stdout == f"generate\n{first}\n--seed\n7\n"
    compile(python(asked, "http://x", keyed=True), "snippet", "exec")
    assert "$VIDGEN_API_KEY" in curl(asked, "http://x", keyed=True)


def test_a_new_field_appears_everywhere_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.demos.new_field"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"command line": True, "document": True, "studio": True, "readme": True}
