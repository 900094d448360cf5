"""Whether the server's own libraries are installed."""

from importlib.util import find_spec

from vidgen.errors import Unsupported
from vidgen.extras import how_to_install

_NEEDED = ("sqlalchemy", "fastapi", "dbos", "obstore")


def need_studio() -> None:
    """Raise Unsupported where what the studio needs is not installed."""
    if find_spec("gradio") is None:
        raise Unsupported(f"The studio needs gradio; install it with {how_to_install('demo')}.")


def need_extra(command: str) -> None:
    """Raise Unsupported where the server is not installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise Unsupported(
            f"vidgen {command} needs {', '.join(missing)}; install them with "
            f"{how_to_install('server')}."
        )
