"""`python -m vidgen.cli`, the same program as `vidgen`."""

from vidgen.cli.entry import entry

entry()
