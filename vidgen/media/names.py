"""File names made from any text: one that every file system takes."""

import re
import unicodedata


def safe_name(text: str, *, max_bytes: int = 120) -> str:
    """Make a file name (without suffix) from any text, such as a prompt of 2,000 characters.

    max_bytes  bound on the UTF-8 length; a character is never cut in two
    Spaces become "_"; characters and names that Linux, macOS or Windows refuse, leading dots and
    dashes, and trailing dots go. Text with nothing usable in it gives "untitled".
    """
    from pathvalidate import sanitize_filename

    if max_bytes < 8:
        raise ValueError(f"max_bytes={max_bytes} is too small for a file name; use 8 or more.")
    flat = re.sub(r"\s+", "_", unicodedata.normalize("NFC", text).strip())
    printable = "".join(c for c in flat if unicodedata.category(c) not in ("Cc", "Cs", "Cn", "Co"))
    name = sanitize_filename(printable, platform="universal", max_len=10_000_000)
    name = _cut(name.lstrip(".-_ "), max_bytes).rstrip("._ ")
    # Cutting can leave a reserved word such as "CON"; the repair adds one byte.
    repaired = sanitize_filename(name, platform="universal")
    return _cut(repaired, max_bytes) or "untitled"


def _cut(name: str, max_bytes: int) -> str:
    """Cut to a byte length, dropping marks and joiners that would be left without what follows or
    precedes them.
    """
    whole = name.encode()
    if len(whole) <= max_bytes:
        return name
    kept = whole[:max_bytes].decode(errors="ignore")
    following = name[len(kept)]
    if unicodedata.combining(following) or following in "\u200d\ufe0f":
        kept = kept[:-1]
    return kept.rstrip("\u200d")
