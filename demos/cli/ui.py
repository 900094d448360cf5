"""`vidgen ui`: the studio alone, in front of a server."""

import os
from typing import Annotated

from cyclopts import Parameter

from server.cli.extra import need_extra
from server.cli.options import KEY_VARIABLE, URL_VARIABLE, Remote, RemoteOf
from vidgen.cli.options import Common, CommonOf, flowing
from vidgen.cli.report import Reporter
from vidgen.errors import Unsupported
from vidgen.extras import how_to_install

DEFAULT_SERVER = "http://127.0.0.1:8000"


@flowing
def ui(
    *,
    host: Annotated[str, Parameter(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port to listen on.")] = 7860,
    remote: RemoteOf = Remote(),  # noqa: B008 - frozen
    common: CommonOf = Common(),  # noqa: B008 - frozen
) -> int:
    """Open the studio: make, watch, queue, find and compare clips in a browser.

    It is a thin client of a server (by default the one of this machine, see vidgen serve) and keeps
    nothing itself: close it or the browser whenever you like, the jobs go on.

    It listens on this machine only. An address that others reach is refused unless the server asks
    for API keys; then each person signs in with their own.
    """
    need_extra("ui")
    need_gradio()
    from demos.studio import launch

    address = remote.server or os.environ.get(URL_VARIABLE) or DEFAULT_SERVER
    key = remote.key or os.environ.get(KEY_VARIABLE) or None
    text = f"The studio for {address}: http://{host}:{port}/ui/"
    return launch(address, key, host, port, lambda: Reporter(common).say(text))


def need_gradio() -> None:
    """Raise Unsupported where Gradio is not installed."""
    from importlib.util import find_spec

    if find_spec("gradio") is None:
        raise Unsupported(f"vidgen ui needs gradio; install it with {how_to_install('demo')}.")
