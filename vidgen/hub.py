"""Weights on the hub: where they lie in the local cache, and fetching them.

`huggingface_hub` is imported only when a hub model is asked for: it reads HF_HUB_OFFLINE then.
"""

import json
import re
from pathlib import Path

from vidgen.detect import declares
from vidgen.errors import NotFound
from vidgen.weights_file import shard_names

PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md"]
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
# Surely legal and short; huggingface_hub judges every other name.
_PLAIN_ID = re.compile(
    r"(?=.{1,90}$)[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*/[A-Za-z0-9]+([-_.][A-Za-z0-9]+)*"
)


def cached_folder(hub_id: str) -> Path | None:
    """Return the folder of a whole snapshot in the local cache, or None; never uses the network.

    Raises  NotFound for a name that is no hub id
    """
    from huggingface_hub import constants  # quick, unlike the rest of the library

    if not _PLAIN_ID.fullmatch(hub_id):
        _check_id(hub_id)
    entry = Path(constants.HF_HUB_CACHE, f"models--{hub_id.replace('/', '--')}")
    try:
        commit = (entry / "refs" / constants.DEFAULT_REVISION).read_text("utf-8").strip()
    except (OSError, ValueError):
        return None
    folder = entry / "snapshots" / commit
    return folder if is_whole(folder) else None


def _check_id(hub_id: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(hub_id)
    except HFValidationError as error:
        raise _no_hub_id(hub_id) from error


def is_whole(folder: Path) -> bool:
    """Whether a snapshot has its index, every part that it names and every file of their weights.

    An interrupted download leaves a folder that lacks some. Sizes are not compared: files of the
    cache are renamed into place only when they are complete.
    """
    try:
        index = json.loads((folder / "model_index.json").read_text("utf-8"))
        parts = [folder / name for name in index if declares(index, name)]
        return all(part.is_dir() and _has_weights(part) for part in parts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def _has_weights(part: Path) -> bool:
    lists = list(part.glob("*.safetensors.index.json"))
    if lists:
        return all((part / name).is_file() for path in lists for name in shard_names(path))
    if not (part / "config.json").is_file():  # a tokenizer, a scheduler: no weights
        return any(part.iterdir())
    # With pickles only, it is whole and refused later, with the true reason.
    found = [path for kind in ("*.safetensors", *_PICKLES) for path in part.glob(kind)]
    return any(path.is_file() for path in found)


def fetch(hub_id: str) -> Path:
    """Bring a snapshot (safetensors only) into the local cache and return its folder.

    Raises  NotFound with the hub's own reason when it cannot be had
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(hub_id, allow_patterns=PATTERNS))
    except HFValidationError as error:
        raise _no_hub_id(hub_id) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise NotFound(f"{hub_id} could not be fetched: {reason}", field="model") from error


def _no_hub_id(text: str) -> NotFound:
    return NotFound(
        f"{text!r} is no hub id; one has the form owner/name, of letters, digits, '-', '_' and '.'"
        " without '--' or '..'.",
        field="model",
    )
