"""Signatures, as two other libraries verify them."""

import time

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from standardwebhooks import Webhook, WebhookVerificationError

from server.webhooks.sign import hint, new_secret, signed_headers

BODY = '{"type":"video.completed","data":{"id":"video_1","name":"Zoë"}}'.encode()


def test_published_example() -> None:
    # From the specification's own reference: https://www.standardwebhooks.com
    headers = signed_headers(
        ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        b'{"test": 2432232314}',
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_both_verifiers_accept_it_and_no_other() -> None:
    secret, now = new_secret(), int(time.time())
    headers = signed_headers([secret], "msg_1", now, BODY)
    client = OpenAI(api_key="none")
    assert Webhook(secret).verify(BODY, headers)["data"]["id"] == "video_1"
    client.webhooks.verify_signature(BODY, headers, secret=secret)
    for wrong_body, wrong_headers in (
        (BODY + b" ", headers),
        (BODY, headers | {"webhook-id": "msg_2"}),
        (BODY, headers | {"webhook-timestamp": str(now + 1)}),
        (BODY, signed_headers([new_secret()], "msg_1", now, BODY)),
    ):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(wrong_body, wrong_headers)
        with pytest.raises(InvalidWebhookSignatureError):
            client.webhooks.verify_signature(wrong_body, wrong_headers, secret=secret)


def test_two_secrets_both_verify() -> None:
    new, old = new_secret(), new_secret()
    headers = signed_headers([new, old], "msg_1", int(time.time()), BODY)
    for secret in (new, old):
        Webhook(secret).verify(BODY, headers)
        OpenAI(api_key="none").webhooks.verify_signature(BODY, headers, secret=secret)


def test_hint_tells_little() -> None:
    secret = new_secret()
    assert hint(secret) == f"whsec_...{secret[-4:]}"
    assert len(secret) == len("whsec_") + 44
