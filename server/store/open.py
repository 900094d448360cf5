"""Opening the store that the settings name."""

from pathlib import Path

from obstore.exceptions import BaseError
from obstore.store import from_url

from server.settings import ServerSettings
from server.store.folder import FolderStore
from server.store.store import Store
from vidgen.errors import BadRequest

_SCHEMES = ("s3", "gs", "az")


def open_store(settings: ServerSettings) -> Store:
    """Return the store: a folder, or a bucket by URL with credentials from the environment.

    Raises  BadRequest for an address that is neither, or when the environment lacks something
    """
    address = settings.store
    scheme, separator, _ = address.partition("://")
    if not separator:
        return FolderStore(Path(address))
    if scheme not in _SCHEMES:
        raise BadRequest(
            f"store={address!r} is neither a folder nor an address of {', '.join(_SCHEMES)}; "
            "give e.g. s3://bucket/folder.",
            field="store",
        )
    try:
        return Store(from_url(address))
    except (BaseError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise BadRequest(f"store={address!r} cannot be opened: {reason}.", field="store") from error
