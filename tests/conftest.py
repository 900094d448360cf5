"""What holds for every test: no network, no hub, and a data folder that is thrown away."""

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

# A shared machine may be slow at any moment; what is tested is the answer, not the time.
settings.register_profile("vidgen", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("vidgen")

os.environ["HF_HUB_OFFLINE"] = "1"  # read when huggingface_hub is imported, so it is set here
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

LOCAL = ("localhost", "127.0.0.1", "::1", "", None)


@pytest.fixture(autouse=True, scope="session")
def _no_network() -> Iterator[None]:
    """Fail a test that reaches for another machine; pytest.fail gets past `except Exception`."""
    connect, lookup = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL:
            pytest.fail(f"the test tried to connect to {address}")
        connect(self, address)

    def guarded_lookup(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host not in LOCAL:
            pytest.fail(f"the test tried to look up {host!r}")
        return lookup(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket, "getaddrinfo", guarded_lookup)
        yield


@pytest.fixture(autouse=True, scope="session")
def vidgen_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep Vidgen's data of the tests, also of the commands they start, out of the user's home."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("VIDGEN_")]:
            patch.delenv(name)
        patch.setenv("VIDGEN_HOME", str(home))
        yield home


def pytest_collection_finish() -> None:
    """Set what importing made aside: to look through it costs half a second at each collection."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter's end find everything again; some libraries call the rest leaks."""
    gc.unfreeze()


class Together(LoadFileScheduling):
    """Files go to processes one by one, but for folders whose tests share costly things."""

    FOLDERS = ("tests/demos",)  # a browser and two servers with their workers

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((folder for folder in self.FOLDERS if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """Say how tests are spread over processes (`pytest -n`)."""
    return Together(config, log)
