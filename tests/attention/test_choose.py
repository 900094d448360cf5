"""Choosing a backend: what runs, and each case that cannot run refused in one sentence."""

from typing import Any

import pytest

from attention import AttentionError, Dense, Host, TopK, Window, choose
from attention.choose import DENSE_BACKENDS, SPARSE_BACKENDS

CPU = Host("cpu", (0, 0), frozenset({"reference", "sdpa", "cpu", "flex"}))
H200 = Host("cuda", (9, 0), frozenset({"reference", "sdpa", "triton", "flex", "flash", "sage"}))
T4 = Host("cuda", (7, 5), frozenset({"reference", "sdpa"}))
BARE = Host("cuda", (9, 0), frozenset({"reference", "sdpa"}))
BROKEN_CPU = Host("cpu", (0, 0), frozenset(), {"cpu": "float32 is off by 0.1"})
BROKEN_H200 = Host("cuda", (9, 0), frozenset(), {"triton": "ImportError: a", "flash": "b"})
PLAIN = TopK(compensate="none")


def chosen(pattern: Any, host: Host, asked: str = "auto", **changed: Any) -> str:
    fields: dict[str, Any] = {"tokens": 32_760, "head_dim": 128, "dtype": "bfloat16", **changed}
    return choose(pattern, host, asked=asked, **fields).backend


@pytest.mark.parametrize(
    ("pattern", "host", "asked", "changed", "backend"),
    [
        (Dense(), CPU, "auto", {}, "sdpa"),
        (Dense(), H200, "auto", {}, "sdpa"),
        (Dense(), H200, "flash", {}, "flash"),
        (Dense(), H200, "sage", {}, "sage"),
        (Dense(), H200, "flash", {"head_dim": 256}, "flash"),
        (Dense(), H200, "sage", {"head_dim": 80}, "sage"),
        (Dense(), T4, "sdpa", {"dtype": "float32", "head_dim": 80}, "sdpa"),
        (TopK(), CPU, "auto", {"dtype": "float32", "head_dim": 48}, "cpu"),
        (Window(), CPU, "auto", {}, "cpu"),
        (TopK(), H200, "auto", {}, "triton"),
        (Window(), H200, "auto", {"dtype": "float16", "head_dim": 64}, "triton"),
        (TopK(), CPU, "cpu", {}, "cpu"),
        (PLAIN, CPU, "flex", {}, "flex"),
        (Window(), H200, "flex", {}, "flex"),
        (TopK(), T4, "reference", {"dtype": "float32", "head_dim": 80}, "reference"),
    ],
)
def test_what_runs(
    pattern: Any, host: Host, asked: str, changed: dict[str, Any], backend: str
) -> None:
    assert chosen(pattern, host, asked, **changed) == backend


REFUSED = [
    (TopK(), T4, "auto", {}, "triton cannot run here: it needs sm80 or newer, found sm75"),
    (TopK(), T4, "triton", {}, "found sm75"),
    (TopK(), CPU, "triton", {}, "it needs sm80 or newer, found a CPU"),
    (TopK(), H200, "triton", {"dtype": "float32"}, "asked for float32"),
    (TopK(), H200, "auto", {"dtype": "float32"}, "asked for float32"),
    (TopK(), H200, "triton", {"head_dim": 80}, "head dimensions 32, 64, 128, the model has 80"),
    (TopK(), BARE, "triton", {}, "triton is not installed"),
    (TopK(), BROKEN_CPU, "cpu", {}, "failed its self-test on this device (float32 is off by 0.1)"),
    (TopK(), BROKEN_CPU, "auto", {}, "=cpu cannot run here: it failed its self-test"),
    (TopK(), BROKEN_H200, "triton", {}, "(ImportError: a); use reference."),
    (Dense(), BROKEN_H200, "flash", {}, "failed its self-test on this device (b); use sdpa."),
    (TopK(), H200, "cpu", {}, "it needs a CPU, found sm90"),
    (TopK(), Host("cpu", (0, 0), frozenset()), "cpu", {}, "not among this device's backends"),
    (TopK(), CPU, "flex", {}, "it has no proxies for compensate=mean"),
    (TopK(compensate="mean_var"), H200, "flex", {}, "no proxies for compensate=mean_var"),
    (PLAIN, BARE, "flex", {}, "needs a C++ compiler and none was found"),
    *(
        (TopK(), host, asked, {}, "reads every key and cannot leave blocks out")
        for asked in DENSE_BACKENDS
        for host in (CPU, H200, BARE)
    ),
    *(
        (Dense(), H200, asked, {}, "computes sparse attention; with attention=dense use")
        for asked in SPARSE_BACKENDS
    ),
    *((Dense(), CPU, asked, {}, "found a CPU") for asked in ("flash", "sage")),
    *((Dense(), T4, asked, {}, "found sm75") for asked in ("flash", "sage")),
    *((Dense(), H200, asked, {"dtype": "float32"}, "float32") for asked in ("flash", "sage")),
    (
        Dense(),
        H200,
        "flash",
        {"head_dim": 264},
        "dimensions up to 256, the model has 264; use sdpa",
    ),
    (Dense(), H200, "sage", {"head_dim": 136}, "dimensions up to 128, the model has 136; use sdpa"),
    *((Dense(), BARE, asked, {}, "not installed") for asked in ("flash", "sage")),
]


@pytest.mark.parametrize(("pattern", "host", "asked", "changed", "message"), REFUSED)
def test_what_cannot_run_is_refused_in_one_sentence(
    pattern: Any, host: Host, asked: str, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(AttentionError) as caught:
        chosen(pattern, host, asked, **changed)
    text = str(caught.value)
    assert message in text
    assert text.endswith(".")
    assert text.count(". ") == 0
    assert "use " in text or "install " in text  # the way out
    assert caught.value.field == "attention_backend"


def test_short_sequences_are_dense_and_it_is_said() -> None:
    found = choose(TopK(), H200, tokens=4_000, head_dim=128, dtype="bfloat16", min_tokens=8_192)
    assert (found.pattern, found.backend) == (Dense(), "sdpa")
    assert "4,000 tokens are below the floor of 8,192" in found.reason
    assert chosen(TopK(), H200, "flash", tokens=10, min_tokens=11) == "flash"
    assert chosen(TopK(), H200, tokens=11, min_tokens=11) == "triton"


@pytest.mark.parametrize("asked", ["auto", *DENSE_BACKENDS, *SPARSE_BACKENDS])
def test_below_the_floor_the_reason_names_it_whoever_was_asked_for(asked: str) -> None:
    fields: dict[str, Any] = {"tokens": 10, "head_dim": 128, "dtype": "bfloat16", "min_tokens": 11}
    found = choose(TopK(), H200, asked=asked, **fields)
    assert found.pattern == Dense()
    assert found.backend == (asked if asked in DENSE_BACKENDS else "sdpa")
    assert found.reason.startswith("10 tokens are below the floor of 11 (min_tokens)")
    assert ("was asked for" in found.reason) == (asked in DENSE_BACKENDS)


def test_a_choice_keeps_the_pattern_and_gives_a_reason() -> None:
    for pattern in (Dense(), PLAIN, Window()):
        for host in (CPU, H200):
            found = choose(pattern, host, tokens=9_000, head_dim=64, dtype="bfloat16")
            assert found.pattern == pattern
            assert found.reason
