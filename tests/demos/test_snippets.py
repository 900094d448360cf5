"""What is copied from the form makes the same clip as the form does, in each of three ways."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.demos.site import ROOT, Site
from tests.demos.test_create import ask, box, shown
from vidgen.media import read_recipe
from vidgen.recipe import parse_recipe

pytestmark = pytest.mark.slow
PROMPT = 'a big red ball\'s way; it moves "left" $HOME'


def latents(path: Path) -> str:
    """Return the hash of the latents that a file was made of."""
    return str(parse_recipe(read_recipe(path), path.name)["latents_sha256"])


def fetched(site: Site, video: str, path: Path) -> Path:
    """Save a job's film."""
    answer = httpx.get(f"{site.address}/v1/videos/{video}/content", timeout=60).raise_for_status()
    path.write_bytes(answer.content)
    return path


def test_the_snippets_make_the_same_clip(real_site: Site, open_page: Any, tmp_path: Path) -> None:
    page = open_page(real_site)
    page.click("#advanced button >> nth=0")
    page.click("#group-sampling button >> nth=0")
    box(page, "num_inference_steps").fill("2")
    ask(page, PROMPT, seed="3")
    video = real_site.ended(shown(page))
    wanted = latents(fetched(real_site, video["id"], tmp_path / "ui.mp4"))
    page.click("#copy-as button")
    texts = {
        name: page.inner_text(f"figure:has([data-vg-copy={name}]) code").replace("\xa0", " ")
        for name in ("CLI", "curl", "Python")
    }

    def run(command: list[str]) -> str:
        return subprocess.run(
            command, cwd=tmp_path, env=real_site.environ, capture_output=True, text=True, check=True
        ).stdout

    python = f'vidgen() {{ {sys.executable} -m vidgen.cli "$@"; }}\n'
    run(["bash", "-c", f"{python}{texts['CLI']} --out cli.mp4"])
    assert latents(tmp_path / "cli.mp4") == wanted
    known = {item["id"] for item in real_site.get("videos", limit=100)["data"]}
    run(["bash", "-c", texts["curl"]])
    (made,) = (
        item for item in real_site.get("videos", limit=100)["data"] if item["id"] not in known
    )
    real_site.ended(made["id"])
    assert latents(fetched(real_site, made["id"], tmp_path / "curl.mp4")) == wanted
    run([sys.executable, "-c", texts["Python"]])
    (film,) = tmp_path.glob("video_*.mp4")
    assert latents(film) == wanted


def test_the_examples_run(real_site: Site, tmp_path: Path) -> None:
    for name in ("quickstart", "client"):
        assert len((ROOT / f"demos/{name}.py").read_text("utf-8").splitlines()) <= 30
        out = tmp_path / f"{name}.mp4"
        subprocess.run(
            [sys.executable, "-m", f"demos.{name}", "a small blue star", str(out)],
            cwd=ROOT, env={**real_site.environ, "VIDGEN_SERVER": real_site.address}, check=True,
        )  # fmt: skip
        assert latents(out)
