"""The API against its own document: schemathesis asks every operation, and reads every answer."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from server.queue.keys import create_key
from tests.server.api.site import WIDE, served
from tests.server.conftest import migrated
from tests.server.proofs.stock import stocked
from tests.server.worker.floor import ROOT, Floor

pytestmark = pytest.mark.slow

_NEVER = {
    "createCharacter", "getCharacter",  # not offered
    "editVideo",  # toyworld changes no video
    "getUploadRecipe",  # no upload here was made by us
    "testWebhookEndpoint",  # nobody listens
}  # fmt: skip
_OF_THE_WHOLE = (
    "The form cannot be read", "Give at least one of", "Nothing would change", "Give one of before",
    "No worker could make it",
)  # fmt: skip


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Floor, str, str]]:
    """Run a server; give its floor, its address and a key that may do everything."""
    db = migrated(f"sqlite:///{tmp_path / 'vidgen.db'}")
    floor = Floor(db, tmp_path / "home", lease_seconds=3600, webhook_private=True, **WIDE)
    key = create_key(db, "default", "all", ["create", "read", "admin"])[1]
    with served(floor) as (_, address):
        yield floor, address, key
    db.close()


def test_every_answer_is_as_documented(running: tuple[Floor, str, str], tmp_path: Path) -> None:
    """Each operation is asked with good and bad values; none fails, and each that is offered gives
    what it is there for.
    """
    floor, address, key = running
    head = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=address, headers=head, timeout=60) as http:
        stock = stocked(floor, http)
        paths = http.get("/openapi.json").json()["paths"]
    places = {"STOCK": tmp_path / "stock.json", "ANSWERS": tmp_path / "answers"}
    places["STOCK"].write_text(json.dumps(asdict(stock)))
    config = Path(__file__).with_name("schemathesis.toml")
    done = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(config),
         "run", f"{address}/openapi.json"],
        cwd=tmp_path, text=True, capture_output=True, check=False,
        env={**os.environ, "API_KEY": key, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
             **{name: str(place) for name, place in places.items()}},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    answers = [json.loads(line) for line in places["ANSWERS"].read_text().splitlines()]
    statuses: dict[str, Counter[int]] = defaultdict(Counter)
    for answer in answers:
        statuses[answer["operation"]][answer["status"]] += 1
    names = {item["operationId"] for path in paths.values() for item in path.values()}
    assert set(statuses) == names
    good = {name for name, found in statuses.items() if min(found) < 400}
    assert names - good == _NEVER
    refused = [item for item in answers if "param" in item]
    assert len(refused) > 100
    assert [
        item for item in refused
        if item["param"] is None and not item["message"].startswith(_OF_THE_WHOLE)
    ] == []  # fmt: skip
