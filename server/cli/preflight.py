"""Preflight: whether an installation's places and port can be used, tried before it starts."""

import errno
import ipaddress
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from server.cli.places import open_or_make, refuse_network_disk, sqlite_path
from server.settings import ServerSettings
from vidgen.errors import BadRequest, DoesNotFit
from vidgen.media.disk import check_folder

_OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)


def check_places(settings: ServerSettings, home: Path) -> None:
    """Make the folders and the database, or refuse what cannot be used.

    settings  with every place named
    Raises    BadRequest; VidgenError for a database that cannot be reached
    """
    refuse_network_disk(settings)
    _check_folder("home", home / "server")
    _check_folder("work", Path(settings.work))
    _check_store(settings)
    path = sqlite_path(settings.database)
    if path is not None:
        _check_folder("database", path.absolute().parent)
    open_or_make(settings).close()


def _check_store(settings: ServerSettings) -> None:
    if "://" not in settings.store:
        _check_folder("store", Path(settings.store))
        return
    from server.store import open_store

    open_store(settings)


def _check_folder(name: str, folder: Path) -> None:
    """Make a folder and write into it."""
    try:
        check_folder(folder, f"name another place with --{name}")
    except DoesNotFit as error:
        raise BadRequest(f"{name}: {error.message}", field=name) from error


def check_port(settings: ServerSettings) -> None:
    """Raise BadRequest for an address that cannot be listened on now."""
    try:
        for family, address in _addresses(settings):
            _try_to_bind(family, address)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        host, port = settings.host, settings.port
        if getattr(error, "errno", None) in _OF_THE_PORT:
            raise BadRequest(
                f"port={port} on {host} cannot be listened on ({reason}); name another with "
                "--port, or 0 for a free one.",
                field="port",
            ) from error
        raise BadRequest(
            f"host={host!r} is no address of this machine ({reason}); give e.g. --host 127.0.0.1.",
            field="host",
        ) from error


def _addresses(settings: ServerSettings) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield (family, address) of each that is listened on; a number is not looked up."""
    host, port = settings.host, settings.port
    try:
        six = ipaddress.ip_address(host).version == 6
    except ValueError:
        kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
        found = socket.getaddrinfo(host or None, port, type=kind, flags=flags)
        yield from ((family, address) for family, _, _, _, address in found)
    else:
        yield (socket.AF_INET6, (host, port, 0, 0)) if six else (socket.AF_INET, (host, port))


def _try_to_bind(family: int, address: tuple[Any, ...]) -> None:
    try:
        tried = socket.socket(family, socket.SOCK_STREAM)
    except OSError:  # a family that this machine has not; who listens leaves it out too
        return
    with tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        tried.bind(address)
