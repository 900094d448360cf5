"""Where the program `vidgen` begins; what it does is in `vidgen.cli.main`."""

from typing import NoReturn

from vidgen.leaving import run_and_leave


def entry() -> NoReturn:
    """Run the program with the process's arguments, and end the process."""
    run_and_leave(_main)


def _main() -> int:
    from vidgen.cli.main import main

    return main()
