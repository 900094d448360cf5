"""`python -m vidgen.cli`, the same program as `vidgen`."""

import sys

from vidgen.cli.main import main

sys.exit(main())
