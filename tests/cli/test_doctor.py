"""What `vidgen doctor` says of the attention backends; the rest of it is in test_tools."""

import dataclasses
import re
from pathlib import Path

import pytest

from attention import executors, self_test
from vidgen.cli import doctor
from vidgen.cli.place import Device
from vidgen.device import GIB, cpu_profile, named
from vidgen.home import Home


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, doctor.Check]:
    """What is said on a CPU with two backends, one of them wrong if the test made it so."""
    profile = dataclasses.replace(cpu_profile(2, 8 * GIB), backends=("cpu", "flex"))
    monkeypatch.setattr(doctor, "find_device", lambda *_a, **_k: Device(profile, "cpu"))
    return {check.name: check for check in doctor._backends(Home(tmp_path))}


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    right = executors.executor("cpu")
    monkeypatch.setattr(self_test, "executor", lambda _name: lambda *a, **k: right(*a, **k) + 0.1)


def test_a_backend_is_shown_with_its_figure(found: dict[str, doctor.Check]) -> None:
    assert list(found) == ["backend cpu", "backend flex"]
    assert found["backend cpu"].state == "ok"
    assert re.fullmatch(r"off by \d\S*e-0\d, allowed 1e-05", found["backend cpu"].text)
    assert found["backend flex"].state == "note"


@pytest.mark.usefixtures("wrong")
def test_a_wrong_one_is_at_fault(request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue("found")
    assert found["backend cpu"].state == "fault"
    assert found["backend cpu"].text == "failed: float32 is off by 0.1 where 1e-05 is allowed"


def test_a_gpu_without_torch_for_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    device = Device(named("nvidia-h200"), "cuda:0")
    monkeypatch.setattr(doctor, "find_device", lambda *_a, **_k: device)
    (check,) = doctor._backends(Home(tmp_path))
    assert (check.name, check.state) == ("backend triton", "fault")
    assert check.text == "failed: torch finds no CUDA device"
