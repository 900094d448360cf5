"""Whoever keeps a failed run's exception keeps none of its tensors."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.engine.cases import Case, inputs_of, make_plan
from vidgen.engine import Engine
from vidgen.errors import BadOutput, Cancelled
from vidgen.events import CancelToken, Progress
from vidgen.families import family
from vidgen.tiny import tiny_components, tiny_model
from vidgen.tracebacks import drop_frames, holding_no_memory

CASES = [Case(family("toyworld"), "flf2v"), Case(family("wan2.1-vace"), "i2v")]


class Watched:
    """An engine whose hidden states, latents and decoded values are watched."""

    def __init__(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.engine = Engine(tiny_model(case.family), tiny_components(case.family))
        self.alive: list[weakref.ref[Any]] = []
        self.harm: Callable[[str, int, Any], Any] = lambda _name, _call, out: out
        parts = self.engine.components
        for name, module in (("expert", parts.transformer), ("decoder", parts.vae.decoder)):
            monkeypatch.setattr(module, "forward", self._watch(name, module.forward))

    def _watch(self, name: str, stock: Any) -> Any:
        calls = 0

        def forward(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            out = self.harm(name, calls, stock(*args, **kwargs))
            tensors = [*args, *kwargs.values(), *(out if isinstance(out, tuple) else [out])]
            self.alive += [weakref.ref(item) for item in tensors if isinstance(item, torch.Tensor)]
            return out

        return forward

    def left(self) -> int:
        """How many of the watched tensors are there still, embeddings apart: a cache keeps them."""
        kept = {id(item) for item in self.engine._cache._kept.values()}
        there = [ref() for ref in self.alive]
        return sum(item is not None and id(item) not in kept for item in there)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def watched(case: Case, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(case, monkeypatch)


def failing(name: str, call: int, error: BaseException) -> Callable[[str, int, Any], Any]:
    def harm(at: str, number: int, out: Any) -> Any:
        if (at, number) == (name, call):
            raise error
        return out

    return harm


def not_finite(name: str, call: int) -> Callable[[str, int, Any], Any]:
    def harm(at: str, number: int, out: Any) -> Any:
        if (at, number) != (name, call):
            return out
        return (out[0] * float("nan"),) if isinstance(out, tuple) else out * float("nan")

    return harm


HARMS: dict[str, tuple[type[BaseException], Callable[[], Any]]] = {
    "latents that are not finite": (BadOutput, lambda: not_finite("expert", 3)),
    "frames that are not finite": (BadOutput, lambda: not_finite("decoder", 2)),
    "an expert that fails": (ValueError, lambda: failing("expert", 2, ValueError("broken"))),
    "a decoder that fails": (ValueError, lambda: failing("decoder", 2, ValueError("broken"))),
    "a second Ctrl-C": (KeyboardInterrupt, lambda: failing("expert", 2, KeyboardInterrupt())),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_failed_run_leaves_nothing(harm: str, case: Case, watched: Watched) -> None:
    kind, make = HARMS[harm]
    watched.harm = make()
    with pytest.raises(kind) as caught:
        watched.engine.run(make_plan(case), inputs_of(case))
    assert watched.alive
    assert watched.left() == 0
    if kind is not BadOutput:
        assert "in harm" in caught.value.__notes__[0]


@pytest.mark.parametrize("stage", ["denoise", "decode"])
@pytest.mark.parametrize("tiling", ["on", "off"])
def test_a_cancelled_run_leaves_nothing(
    stage: str, tiling: str, case: Case, watched: Watched
) -> None:
    vae, token = watched.engine.components.vae, CancelToken()
    vae.tile_sample_min_height = vae.tile_sample_min_width = 48
    vae.tile_sample_stride_height = vae.tile_sample_stride_width = 32

    def stop(event: Any) -> None:
        if isinstance(event, Progress) and (event.stage, event.done) == (stage, 2):
            token.cancel()

    with pytest.raises(Cancelled) as caught:
        watched.engine.run(
            make_plan(case, vae_tiling=tiling), inputs_of(case), cancel=token, on=stop
        )
    assert watched.left() == 0
    assert not hasattr(caught.value, "__notes__")


def test_a_run_that_ends_well_leaves_what_it_returns(case: Case, watched: Watched) -> None:
    clip = watched.engine.run(make_plan(case), inputs_of(case))
    assert clip.frames is not None
    assert watched.left() == 0


class Thing:
    """Something that a frame holds."""


def fail(seen: list[weakref.ref[Thing]], error: BaseException) -> None:
    thing = Thing()
    seen.append(weakref.ref(thing))
    raise error


def test_causes_and_contexts_are_emptied_too() -> None:
    seen: list[weakref.ref[Thing]] = []

    @holding_no_memory
    def run() -> None:
        own = Thing()
        seen.append(weakref.ref(own))
        try:
            fail(seen, ValueError("first"))
        except ValueError as first:
            try:
                fail(seen, TypeError("on the way"))
            except TypeError:
                raise KeyError("last") from first

    with pytest.raises(KeyError) as caught:
        run()
    assert isinstance(caught.value.__cause__, ValueError)
    assert isinstance(caught.value.__context__, TypeError)
    gc.collect()
    assert [ref() for ref in seen] == [None, None, None]


def test_what_was_being_handled_before_is_not_touched() -> None:
    before: list[weakref.ref[Thing]] = []
    inside: list[weakref.ref[Thing]] = []
    try:
        fail(before, ValueError("the caller's own"))
    except ValueError as outer:
        with pytest.raises(TypeError) as caught:
            holding_no_memory(fail)(inside, TypeError("ours"))
        assert caught.value.__context__ is outer
        assert inside[0]() is None
        assert before[0]() is not None
        drop_frames(outer)
        assert before[0]() is None
