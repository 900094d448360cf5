"""`python -m server.worker`: one worker as a plain process."""

import argparse
import logging
import sys
from pathlib import Path

from server.settings import ServerSettings
from server.worker.main import ENGINE, WorkerOptions, run_worker
from vidgen.errors import VidgenError


def main(arguments: list[str]) -> int:
    """Run a worker with what the command line says; return the exit code."""
    parser = argparse.ArgumentParser("python -m server.worker", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="Folder of settings and caches.")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:<n>, cpu or cpu:<n>.")
    parser.add_argument("--renderer", default=ENGINE, help="module:function that makes clips.")
    parser.add_argument("--pool", help="Pool that it serves.")
    parser.add_argument("--tenant", action="append", help="Serve only this tenant; repeatable.")
    parser.add_argument("--model", action="append", help="Serve only this model; repeatable.")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="A setting of the server; repeatable.",
    )
    asked = parser.parse_args(arguments)
    given = dict(item.partition("=")[::2] for item in asked.set)
    options = WorkerOptions(
        device=asked.device,
        renderer=asked.renderer,
        pool=asked.pool,
        tenants=None if asked.tenant is None else tuple(asked.tenant),
        models=None if asked.model is None else tuple(asked.model),
    )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="INFO")
    try:
        return run_worker(ServerSettings.model_validate(given), asked.home, options)
    except VidgenError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
