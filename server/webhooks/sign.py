"""Signing by the Standard Webhooks specification: HMAC-SHA256 of id, time and body, under v1."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence

_PREFIX = "whsec_"


def new_secret() -> str:
    """Make a signing secret of 256 bits, as clients' libraries take it."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def hint(secret: str) -> str:
    """Return what may be shown of a secret."""
    return f"{_PREFIX}...{secret[-4:]}"


def signed_headers(
    keys: Sequence[str], message_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Return the headers that prove where a message comes from.

    keys       secrets that are valid now; each signs, so that a receiver may know any one of them
    timestamp  of this try, seconds since 1970
    """
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{_signature(key, content)}" for key in keys),
    }


def _signature(key: str, content: bytes) -> str:
    raw = base64.b64decode(key.removeprefix(_PREFIX))
    return base64.b64encode(hmac.digest(raw, content, hashlib.sha256)).decode()
