"""Adds a field to the request, in memory, and prints as JSON where it appears by itself."""

import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

_BEFORE = "    strict: bool = option("
_FIELD = """    sparkle: int = option(
        3, text="How much it glitters.", group="output", ge=0, le=9
    )
"""


def changed_request() -> ModuleType:
    """Load vidgen.request with one more field, before anything else imports it."""
    spec = importlib.util.find_spec("vidgen.request")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text("utf-8")
    assert source.count(_BEFORE) == 1
    module = importlib.util.module_from_spec(spec)
    sys.modules["vidgen.request"] = module
    exec(compile(source.replace(_BEFORE, _FIELD + _BEFORE), spec.origin, "exec"), module.__dict__)
    return module


def main() -> None:
    """Look at the command line, the API's document, the studio and the README's table."""
    changed_request()
    from demos.studio import mount
    from scripts.readme import fields_table
    from server.api.app import create_app
    from server.settings import ServerSettings
    from vidgen.cli.options import RequestFlags

    settings = ServerSettings()
    with tempfile.TemporaryDirectory() as folder:
        app = create_app(settings, Path(folder))
        mount(app, settings)
        studio = [route for route in app.routes if getattr(route, "path", "") == "/ui"]
        page = json.dumps(studio[0].app.get_blocks().get_config_file())  # type: ignore[attr-defined]
        document = json.dumps(app.openapi()["components"]["schemas"]["VideoCreate"])
        app.state.services.database.close()
    found = {
        "command line": "sparkle" in RequestFlags.__dataclass_fields__,  # type: ignore[attr-defined]
        "document": '"sparkle"' in document,
        "studio": "field-sparkle" in page and "How much it glitters." in page,
        "readme": "`sparkle`" in fields_table(),
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # the studio's threads are not waited for


if __name__ == "__main__":
    main()
