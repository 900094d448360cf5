"""Running out of memory is one sentence, told apart from damage and from other errors."""

import errno
from pathlib import Path

import pytest
import torch

from vidgen import components
from vidgen.components import load_components
from vidgen.errors import DoesNotFit, NotFound
from vidgen.oom import explained_memory, is_out_of_memory

MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    MemoryError(),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
]
OTHERS = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"),
    OSError(errno.ENOENT, "No such file"),
    OSError("Error no file named model.safetensors"),
    ValueError("out of memory"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", MEMORY, ids=repr)
def test_out_of_memory_is_one_sentence(error: BaseException) -> None:
    assert is_out_of_memory(error)
    with pytest.raises(DoesNotFit) as caught, explained_memory("Encoding", "try less"):
        raise error
    assert caught.value.message == "Encoding ran out of memory; try less."
    assert caught.value.code == DoesNotFit.default_code
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", OTHERS, ids=repr)
def test_other_errors_pass(error: BaseException) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)) as caught, explained_memory("Encoding", "try less"):
        raise error
    assert caught.value is error


def test_what_filled_the_memory_is_let_go() -> None:
    import weakref

    watched = []

    def fill() -> None:
        tensor = torch.zeros(4)
        watched.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("no memory")

    with pytest.raises(DoesNotFit) as caught, explained_memory("Denoising", "try less"):
        fill()
    assert caught.value.__cause__ is not None
    assert watched[0]() is None


def test_the_real_allocator_is_understood() -> None:
    with pytest.raises(DoesNotFit), explained_memory("Reserving", "try less"):
        torch.empty(2**60, dtype=torch.uint8)


@pytest.mark.parametrize("error", MEMORY, ids=repr)
def test_loading_without_memory_does_not_ask_to_fetch_again(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(components, "_load", fail)
    with pytest.raises(DoesNotFit, match="ran out of memory; use a smaller model"):
        load_components(tmp_path, "float32", "float32")


def test_loading_damage_still_asks_to_fetch_again(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="fetch the model again"):
        load_components(tmp_path, "float32", "float32")
