"""The self-test: a backend counts only if it imports and agrees; otherwise there is a reason."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from attention import AttentionError, dense, executors
from attention import self_test as module
from attention.dense import attend_flash, attend_sage, dense_attention
from attention.self_test import self_test
from tests.attention.tensors import tokens


def test_what_works_on_a_cpu() -> None:
    found = self_test("cpu", ["reference", "sdpa", "cpu"])
    assert list(found) == ["reference", "sdpa", "cpu"]
    for finding in found.values():
        assert finding.problem == ""
        assert finding.off <= finding.allowed == 1e-5
    assert found["cpu"].off > 0  # it was not compared with itself


def test_a_missing_package_and_a_wrong_device_have_reasons() -> None:
    found = self_test("cpu", ["flash", "sage", "triton"])
    assert "needs the package flash-attn" in found["flash"].problem
    assert "needs the package sageattention" in found["sage"].problem
    assert found["triton"].problem
    if not torch.cuda.is_available():
        for name in ("triton", "sdpa"):
            assert self_test("cuda:0", [name])[name].problem == "torch finds no CUDA device"


@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_a_wrong_result_is_no_backend(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = executors.executor("cpu")
    monkeypatch.setattr(module, "executor", lambda _name: lambda *a, **k: right(*a, **k) + wrong)
    finding = self_test("cpu", ["cpu"])["cpu"]
    shown = "nan" if wrong != wrong else "0.001"
    assert finding.problem == f"float32 is off by {shown} where 1e-05 is allowed"


def test_proxies_that_are_wrong_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = executors.executor("cpu")

    def forgets_variances(q: Any, k: Any, v: Any, selection: Any, proxies: Any = None) -> Any:
        if proxies is not None:
            proxies = replace(proxies, variances_bhkd=None)
        return right(q, k, v, selection, proxies)

    monkeypatch.setattr(module, "executor", lambda _name: forgets_variances)
    assert "is off by" in self_test("cpu", ["cpu"])["cpu"].problem


@pytest.mark.parametrize(
    "failure",
    [
        ImportError("libx.so.3: cannot open\nmore"), AttributeError("no attribute y."),
        OSError("no compiler. Install one."), RuntimeError(), AssertionError("never"),
    ],
)  # fmt: skip
def test_whatever_a_broken_package_raises_is_one_clause(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_a: object, **_k: object) -> None:
        raise failure

    monkeypatch.setattr(module, "executor", lambda _name: broken)
    problem = self_test("cpu", ["cpu", "sdpa"])["cpu"].problem
    said = ["libx.so.3: cannot open", "no attribute y", "no compiler", "no message", "never"]
    assert problem in [f"{type(failure).__name__}: {text}" for text in said]
    assert not self_test("cpu", ["sdpa"])["sdpa"].problem


def test_dense_adapters_have_one_signature_and_no_fallback() -> None:
    q, k, v = tokens((1, 2, 50, 32))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.2)
    assert torch.equal(dense_attention("sdpa")(q, k, v, scale=0.2), expected)
    assert (dense_attention("flash"), dense_attention("sage")) == (attend_flash, attend_sage)
    for attend, package in ((attend_flash, "flash-attn"), (attend_sage, "sageattention")):
        with pytest.raises(AttentionError, match=f"needs the package {package}"):
            attend(q, k, v)


def test_strides_and_names_reach_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the two libraries that compute with torch and check what they are given."""
    import sys
    from types import ModuleType

    def flash_attn_func(q: Any, k: Any, v: Any, *, softmax_scale: float) -> Any:
        assert q.shape == (1, 50, 2, 32)
        moved = (x.transpose(1, 2) for x in (q, k, v))
        return dense.attend_sdpa(*moved, scale=softmax_scale).transpose(1, 2)

    def sageattn(q: Any, k: Any, v: Any, *, tensor_layout: str, sm_scale: float) -> Any:
        assert (q.shape, tensor_layout) == ((1, 2, 50, 32), "HND")
        return dense.attend_sdpa(q, k, v, scale=sm_scale)

    for name, function in (("flash_attn", flash_attn_func), ("sageattention", sageattn)):
        stand_in = ModuleType(name)
        setattr(stand_in, function.__name__, function)
        monkeypatch.setitem(sys.modules, name, stand_in)
    q, k, v = tokens((1, 2, 50, 32))
    expected = dense.attend_sdpa(q, k, v, scale=0.2)
    for attend in (attend_flash, attend_sage):
        assert torch.allclose(attend(q, k, v, scale=0.2), expected)
