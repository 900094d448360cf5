"""Extras: libraries that only some commands need, and how they are installed."""


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra, to stand in a message."""
    return f"`pip install -c constraints.txt -e '.[{extra}]'` in the folder of Vidgen's source"
