"""The API with the studio in it as a process of its own: its first line is its address."""

import json
import sys
from pathlib import Path

from demos.studio import mount
from server.api.run import serve_api
from server.settings import ServerSettings


def main() -> int:
    """Serve the home that is named first with the settings (JSON) that are named second."""
    settings = ServerSettings.model_validate(json.loads(sys.argv[2]))

    def told(address: str) -> None:
        print(address, flush=True)

    return serve_api(settings, Path(sys.argv[1]), told, dress=mount)


if __name__ == "__main__":
    sys.exit(main())
