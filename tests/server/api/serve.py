"""The API as a process of its own, for tests: its address is the first line that it prints."""

import json
import sys
from pathlib import Path

from server.api.run import serve_api
from server.settings import ServerSettings


def main() -> int:
    """Serve the home that is named first with the settings (JSON) that are named second."""
    settings = ServerSettings.model_validate(json.loads(sys.argv[2]))

    def told(address: str) -> None:
        print(address, flush=True)

    return serve_api(settings, Path(sys.argv[1]), told)


if __name__ == "__main__":
    sys.exit(main())
