"""The self-test: a backend counts only if it imports and agrees; otherwise there is a reason."""

import pytest
import torch

from attention import AttentionError, dense, executors
from attention.dense import attend_flash, attend_sage, dense_attention
from attention.self_test import available_backends, self_test
from tests.attention.tensors import tokens


def test_what_works_on_a_cpu() -> None:
    assert available_backends("cpu") == {"reference", "sdpa", "cpu"}
    assert self_test("cpu", ["cpu"]) == {"cpu": None}


def test_a_missing_package_and_a_wrong_device_have_reasons() -> None:
    found = self_test("cpu", ["flash", "sage", "triton"])
    assert all(found.values())
    if not torch.cuda.is_available():
        assert self_test("cuda", ["triton"]) == {"triton": "torch finds no CUDA device"}
        assert available_backends("cuda") == frozenset()


@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_a_wrong_result_is_no_backend(wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from attention import self_test as module

    right = executors.executor("cpu")
    monkeypatch.setattr(module, "executor", lambda _name: lambda *a, **k: right(*a, **k) + wrong)
    assert "cpu" not in available_backends("cpu")
    assert "differs from the reference by" in str(self_test("cpu", ["cpu"])["cpu"])


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
    from typing import Any

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
