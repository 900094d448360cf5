"""Weights on the hub: where they lie in the local cache, and fetching them.

`huggingface_hub` is imported only when a hub model is asked for.
"""

from pathlib import Path

from vidgen.errors import NotFound

PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md"]


def cached_folder(hub_id: str) -> Path | None:
    """Return the folder of a snapshot in the local cache, or None; never uses the network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=PATTERNS, local_files_only=True))
    except LocalEntryNotFoundError:
        return None


def fetch(hub_id: str) -> Path:
    """Bring a snapshot (safetensors only) into the local cache and return its folder.

    Raises  NotFound with the hub's own reason when it cannot be had
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=PATTERNS))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NotFound(f"{hub_id} could not be fetched: {reason}", field="model") from error
