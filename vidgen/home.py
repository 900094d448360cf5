"""VIDGEN_HOME: the folder of what Vidgen keeps between runs; it reads and writes none of it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vidgen.errors import NotFound


@dataclass(frozen=True, slots=True)
class Home:
    """The folders and files under one root; a folder is made by whoever first writes into it."""

    root: Path

    @property
    def embeddings(self) -> Path:
        """Text embeddings, made anew when missing."""
        return self.root / "embeddings"

    @property
    def device(self) -> Path:
        """A measured profile of this machine's device."""
        return self.root / "device.json"

    @property
    def settings(self) -> Path:
        """The user's own settings file."""
        return self.root / "vidgen.toml"


def expanded(name: str) -> Path:
    """Return a path with ~ written out; the home of a user who is not known here stays as it is."""
    return Path(os.path.expanduser(name))


def find_home(asked: Path | None, environ: Mapping[str, str]) -> Home:
    """Return the home that is asked for, else VIDGEN_HOME, else the platform's data folder."""
    named = asked or environ.get("VIDGEN_HOME")
    if named:
        try:
            return Home(Path(named).expanduser())
        except RuntimeError:
            raise NotFound(
                f"{named} begins with the home of a user who is not known here."
            ) from None
    from platformdirs import user_data_path

    return Home(user_data_path("vidgen", appauthor=False))
