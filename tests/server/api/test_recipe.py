"""The recipe inside an upload: read back as what was asked, or one sentence says why not."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.server.api.site import Site
from vidgen.media import VideoWriter


def uploaded(site: Site, path: Path, recipe: str | None) -> dict[str, Any]:
    """Write a film with such a recipe and send it."""
    with VideoWriter(path, width=32, height=32, fps=Fraction(8), recipe=recipe) as writer:
        writer.write(np.zeros((5, 32, 32, 3), np.float32))
    answer = site.http.post("/v1/uploads", files={"file": (path.name, path.read_bytes())})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("recipe", [None, '{"other": 1}', json.dumps({"vidgen_recipe": 99})])
def test_a_film_without_a_recipe_of_ours_is_told_so(
    site: Site, tmp_path: Path, recipe: str | None
) -> None:
    made = uploaded(site, tmp_path / "film.mp4", recipe)
    assert "recipe" not in made
    assert made["has_recipe"] is (recipe is not None)
    answer = site.http.get(f"/v1/uploads/{made['id']}/recipe")
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith("film.mp4 ")


def test_the_queue_tells_the_free_disk(site: Site) -> None:
    assert site.http.get("/v1/queue").json()["disk_free_bytes"] > 0
