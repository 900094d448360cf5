"""Sending one message to one receiver: signed, bounded, and only where it may go."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from server.inputs.addresses import is_any, is_public
from server.inputs.dialling import Deadline, Refused, Rules, Unreachable
from server.inputs.http import open_url, parse_url
from server.settings import ServerSettings
from server.webhooks.sign import signed_headers

SECONDS = 15
READ_BYTES = 1024  # of the answer, which says nothing to us


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a try: the receiver's status, or why there is none."""

    status: int | None
    error: str | None

    @property
    def accepted(self) -> bool:
        """Whether the receiver has it."""
        return self.status is not None and 200 <= self.status < 300


def rules_of(settings: ServerSettings) -> Rules:
    """Return where webhooks may go: https to public addresses, or anywhere if it is allowed."""
    if settings.webhook_private:
        return Rules(SECONDS, schemes=("https", "http"), allowed=is_any)
    return Rules(SECONDS, allowed=is_public)


def send(
    url: str,
    payload: dict[str, Any],
    *,
    keys: Sequence[str],
    message_id: str,
    now: float,
    rules: Rules,
    traceparent: str | None = None,
) -> Answer:
    """Send a message once; redirects are not followed and count as a refusal."""
    body = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "vidgen-webhooks",
        **signed_headers(keys, message_id, int(now), body),
    }
    if traceparent is not None:
        headers["traceparent"] = traceparent
    try:
        target = parse_url(url, rules.schemes)
        deadline = Deadline(rules.seconds)
        with open_url("POST", target, rules, deadline, headers=headers, body=body) as response:
            read = 0
            for piece in response.iter_stream():
                read += len(piece)
                if read >= READ_BYTES:
                    break
            status = response.status
    except ValueError as error:
        return Answer(None, f"The URL cannot be used: {error}.")
    except Refused:
        return Answer(None, "The URL leads to an address that is not public.")
    except Unreachable as error:
        return Answer(None, f"The receiver did not answer: {error}.")
    accepted = 200 <= status < 300
    return Answer(status, None if accepted else f"The receiver answered {status}.")
