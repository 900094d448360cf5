"""Chaos: jobs go in while workers, API and Postgres are killed at random, and are counted after.

    python -m benchmarks.chaos --jobs 300 --workers 4 --seconds 600 --database sqlite --seed 1

It proves, or says where it is not so: every accepted job ends, in the state that it must end in;
none is lost or made twice; each clip is in its video once, and none that was finished is made
again. Everything that happens by chance follows from the seed, but for the scheduling of the
operating system.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.chaos_check import check
from benchmarks.chaos_jobs import Submitter
from benchmarks.chaos_monkey import Monkey
from benchmarks.fake_renderer import LOG
from benchmarks.fleet import Fleet
from benchmarks.postgres import Cluster, postgres_binaries

# Leases are short so that there is time for many take-overs, and no number of lost workers ends a
# job: whether each one ends well is what is asked here.
SETTINGS = {
    "max_queued": "100000",
    "tenant_max_queued": "100000",
    "max_backlog_seconds": "1e9",
    "heartbeat_seconds": "1",
    "lease_seconds": "6",
    "max_losses": "1000",
    "disk_reserve_mib": "0",
    "previews": "false",
}
# Of the time: jobs are handed in, things are killed; what is left then has to end by itself.
_FEED_SHARE, _KILL_SHARE = 0.25, 0.5
_FEED_SECONDS = 1.0  # for each job, at most


def main(arguments: list[str] | None = None) -> int:
    """Run and print the figures; return 0 when nothing is wrong, 1 otherwise."""
    asked = _asked(arguments)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(2**31)
    print(f"seed {seed}", flush=True)
    figures = run(asked.jobs, asked.workers, asked.seconds, asked.database, seed)
    print(json.dumps(figures, indent=1), flush=True)
    if asked.out is not None:
        asked.out.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return 1 if figures["wrong"] else 0


def _asked(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.chaos", description=__doc__)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600, help="for everything")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, help="drawn and printed when omitted")
    parser.add_argument("--out", type=Path, help="a file for the figures")
    return parser.parse_args(arguments)


def run(jobs: int, workers: int, seconds: float, database: str, seed: int) -> dict[str, Any]:
    """Do it all in a temporary folder, which is kept when something is wrong.

    Raises  RuntimeError where Postgres is asked for and not installed
    """
    cluster = _cluster() if database == "postgres" else None
    folder = Path(tempfile.mkdtemp(prefix="vidgen-chaos-"))
    settings = dict(SETTINGS)
    if cluster is not None:
        settings["database"] = cluster.url(cluster.create())
    fleet = Fleet(folder, settings, environ={LOG: str(folder / "begun.jsonl")})
    try:
        figures = _played(fleet, cluster, jobs, workers, seconds, seed)
    finally:
        fleet.stop()
        if cluster is not None:
            cluster.remove()
    if not figures["wrong"]:
        shutil.rmtree(folder)
    return {"seed": seed, "database": database, "folder": str(folder), **figures}


def _cluster() -> Cluster:
    binaries = postgres_binaries()
    if binaries is None:
        raise RuntimeError("Postgres is not installed (apt-get install postgresql).")
    return Cluster(binaries)


def _played(
    fleet: Fleet, cluster: Cluster | None, jobs: int, workers: int, seconds: float, seed: int
) -> dict[str, Any]:
    began = time.monotonic()
    fleet.start_api()
    for number in range(workers):
        fleet.start_worker(number)
    fleet.wait_for_workers(workers)
    spread = min(_FEED_SHARE * seconds, _FEED_SECONDS * jobs)
    submitter = Submitter(fleet, jobs, spread, random.Random(f"{seed} jobs"))
    monkey = Monkey(fleet, cluster, random.Random(f"{seed} kills"))
    feeding = threading.Thread(target=submitter.run, name="submit")
    feeding.start()
    until = began + seconds
    calm = began + _KILL_SHARE * seconds
    while time.monotonic() < calm and not (submitter.done and _ended(fleet, submitter)):
        monkey.turn()
    monkey.rest()
    feeding.join(timeout=max(1.0, until - time.monotonic()))
    while time.monotonic() < until and not _ended(fleet, submitter):
        monkey.keep_alive()
        time.sleep(0.5)
    if not _ended(fleet, submitter):
        left = f"{submitter.missing} were not accepted" if submitter.missing else "some run still"
        return {"wrong": [f"{seconds:.0f} s were too short: {left}, or the API does not answer"]}
    found = check(fleet, submitter.accepted)
    return {
        "seconds": round(time.monotonic() - began, 1),
        "jobs": jobs,
        "accepted": len(submitter.accepted),
        "clips": sum(job.clips for job in submitter.accepted.values()),
        "ends": dict(Counter(found.ends.values())),
        "kills": dict(monkey.kills),
        "answers_missed": submitter.missed,
        "takeovers": found.takeovers,
        "clips_begun": found.begun,
        "clips_begun_after_finished": found.again,
        "wrong": found.wrong,
    }


def _ended(fleet: Fleet, submitter: Submitter) -> bool:
    """Whether all that was accepted has ended, as far as the server can say now."""
    if not submitter.done:
        return False
    try:
        states = fleet.call("GET", "/v1/queue")[1]["states"]
    except (OSError, KeyError, ValueError):
        return False
    ended = sum(states[name] for name in ("completed", "failed", "cancelled", "expired"))
    return int(ended) >= len(submitter.accepted)


if __name__ == "__main__":
    sys.exit(main())
