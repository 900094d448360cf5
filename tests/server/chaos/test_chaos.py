"""A small chaos run on each database: workers, the API and Postgres are killed, nothing is lost."""

import pytest

from benchmarks import chaos
from tests.server.postgres import postgres_binaries

SEED = 4
JOBS = 10


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_accepted_job_ends_well(database: str) -> None:
    if database == "postgres" and postgres_binaries() is None:
        pytest.skip("needs Postgres (apt-get install postgresql)")
    found = chaos.run(jobs=JOBS, workers=2, seconds=300, database=database, seed=SEED)
    print(found)
    assert found["wrong"] == []
    assert found["accepted"] == JOBS
    assert sum(found["kills"].values()) > 0
