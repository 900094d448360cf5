"""Named profiles, looking at this machine without torch, and stored profiles."""

import dataclasses
import json
import re
import subprocess
import sys

import pytest

from vidgen import device
from vidgen.device import (
    GIB,
    MIB,
    cpu_profile,
    load_profile,
    named,
    save_profile,
    self_tested,
    this_machine,
)
from vidgen.errors import BadRequest, NotFound
from vidgen.plan import plan
from vidgen.request import VideoRequest


@pytest.fixture
def smi(monkeypatch):
    """Stand in for nvidia-smi; torch counts as a build for GPUs."""

    def answer(text, code=0, error=None):
        def run(command, **options):
            assert command[0] == "nvidia-smi"
            assert options["timeout"] <= 10
            if error is not None:
                raise error
            data = text if isinstance(text, bytes) else text.encode()
            return subprocess.CompletedProcess(command, code, data, b"")

        monkeypatch.setattr(device.subprocess, "run", run)

    monkeypatch.setattr(device, "_torch_is_for_cpu", lambda: False)
    return answer


def test_every_named_profile_is_complete():
    for name, profile in device.profiles().items():
        rates = profile.rates
        assert profile.name == name
        assert named(name) == profile
        assert min(rates.attention, rates.linear) > 0
        assert max(rates.attention, rates.linear, rates.vae_bfloat16) < rates.peak
        assert profile.memory_bytes > 0
        assert (profile.kind == "cpu") == (profile.capability == (0, 0))


def test_an_unknown_name_gets_near_ones():
    with pytest.raises(NotFound, match="did you mean nvidia-h200 or nvidia-h100") as caught:
        named("nvidia-h220")
    assert caught.value.field == "device"
    with pytest.raises(NotFound, match="nvidia-rtx-4090"):
        named("4090")
    with pytest.raises(NotFound, match="known are cpu, nvidia-a100-80gb"):
        named("zzzzzz")


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "nvidia-a100-80gb"),
        ("NVIDIA A800-SXM4-80GB", "nvidia-a800-80gb"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", "nvidia-rtx-4090d"),
        ("NVIDIA GeForce RTX 5090", "nvidia-rtx-5090"),
    ],
)
def test_a_known_gpu_is_matched_by_its_name(smi, title, name):
    smi(f"{title}, 40000, 9.0\n{title}, 40000, 9.0\n")
    found = this_machine()
    assert (found.name, found.title, found.kind) == (name, title, "cuda")
    assert found.memory_bytes == 40000 * MIB  # what the machine says, not the table
    assert found.capability == (9, 0)
    assert found.rates == named(name).rates


@pytest.mark.parametrize(
    "title",
    ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA H100 PCIe", "NVIDIA GeForce RTX 3060", "H20"],
)
def test_an_unknown_gpu_gets_a_wide_guess(smi, title):
    smi(f"{title}, 12288, 8.6\n")
    found = this_machine()
    assert title in found.rates.source
    assert found.rates.source.startswith("guess")
    assert found.rates.spread > named("nvidia-rtx-4090").rates.spread
    assert found.rates.attention < named("nvidia-rtx-4090").rates.attention
    assert found.name.startswith("nvidia-")
    assert found.name not in device.profiles()


def test_a_larger_unknown_gpu_is_guessed_faster(smi):
    smi("Some GPU, 8192, 8.9\n")
    small = this_machine()
    smi("Some GPU, 24576, 8.9\n")
    large = this_machine()
    smi("Some GPU, 184320, 10.0\n")
    server = this_machine()
    speeds = [item.rates.linear for item in (small, large, server)]
    assert speeds == sorted(speeds)
    assert len(set(speeds)) == 3


@pytest.mark.parametrize(
    ("text", "code", "error"),
    [
        ("", 0, None),
        ("NVIDIA-SMI has failed because it couldn't communicate with the driver.", 9, None),
        ("NVIDIA H200, 143771, 9.0", 1, None),
        ("NVIDIA H200, [N/A], 9.0\n", 0, None),
        ("NVIDIA H200, 0, 9.0\n", 0, None),
        ("name, memory.total\n\x00\x01", 0, None),
        (b"\xff\xfe\x00garbage, 12, \xff", 0, None),
        ("", 0, FileNotFoundError("nvidia-smi")),
        ("", 0, PermissionError("nvidia-smi")),
        ("", 0, subprocess.TimeoutExpired("nvidia-smi", 10)),
    ],
)
def test_without_a_usable_answer_it_is_the_cpu(smi, text, code, error):
    smi(text, code, error)
    found = this_machine()
    assert (found.name, found.kind) == ("cpu", "cpu")
    assert found.memory_bytes == found.host_bytes > 0
    assert found.rates.peak > found.rates.linear > 0


def test_a_torch_for_cpus_cannot_use_the_gpu(smi, monkeypatch):
    smi("NVIDIA H200, 143771, 9.0\n")
    monkeypatch.setattr(device, "_torch_is_for_cpu", lambda: True)
    assert this_machine().kind == "cpu"


def test_the_cpu_can_be_asked_for_beside_a_gpu(smi):
    smi("NVIDIA H200, 143771, 9.0\n")
    assert this_machine().kind == "cuda"
    assert device.this_cpu().kind == "cpu"


def test_more_cores_are_faster():
    one, many = cpu_profile(1, GIB), cpu_profile(64, GIB)
    assert one.rates.linear < many.rates.linear < 64 * one.rates.linear


def test_a_container_limits_cores_and_memory(monkeypatch):
    limits = {"/sys/fs/cgroup/cpu.max": "100000 100000", "/sys/fs/cgroup/memory.max": "1048576"}
    monkeypatch.setattr(device, "_read", lambda path: limits[str(path)])
    assert device._cores() == 1
    assert device._host_bytes() == MIB
    limits.update({"/sys/fs/cgroup/cpu.max": "max 100000", "/sys/fs/cgroup/memory.max": "max"})
    assert device._cores() >= 1
    assert device._host_bytes() > MIB


def test_a_stored_profile_wins(tmp_path, smi):
    smi("NVIDIA H200, 143771, 9.0\n")
    measured = dataclasses.replace(named("nvidia-h100"), title="mine")
    measured = dataclasses.replace(
        measured, rates=dataclasses.replace(measured.rates, spread=0.1, source="measured today")
    )
    path = tmp_path / "deep" / "device.json"
    assert this_machine(path).name == "nvidia-h200"  # not there yet
    save_profile(measured, path)
    assert load_profile(path) == measured
    assert this_machine(path) == measured
    assert [item.name for item in path.parent.iterdir()] == ["device.json"]


def _stored(**changes):
    data = json.loads(json.dumps(dataclasses.asdict(named("cpu"))))
    data["rates"].update(changes.pop("rates", {}))
    data.update(changes)
    return json.dumps(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        _stored(more=1),
        _stored(kind="tpu"),
        _stored(capability=[1]),
        _stored(memory_bytes=0),
        _stored(rates={"spread": -1}),
        _stored(rates={"linear": float("nan")}),
        _stored(rates={"linear": "fast"}),
        _stored(rates={"speed": 1}),
        b"\xff\xfe",
    ],
)
def test_a_damaged_profile_is_one_sentence(tmp_path, text):
    path = tmp_path / "device.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(BadRequest, match="is not a device profile"):
        load_profile(path)


def test_a_missing_profile_is_not_found(tmp_path):
    with pytest.raises(NotFound, match=r"device\.json"):
        load_profile(tmp_path / "device.json")


def test_planning_loads_neither_torch_nor_diffusers():
    code = (
        "import sys, vidgen.estimate, vidgen.device; vidgen.device.this_machine();"
        "bad = {'torch', 'diffusers', 'transformers'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.fixture
def broken_cpu(monkeypatch):
    """Let the CPU backend compute something that is a little wrong."""
    from attention import executors, self_test

    right = executors.executor("cpu")
    monkeypatch.setattr(self_test, "executor", lambda _name: lambda *a, **k: right(*a, **k) * 1.001)


def test_backends_that_work_stay_and_slow_ones_are_not_tried():
    found = dataclasses.replace(cpu_profile(2, 8 * GIB), backends=("cpu", "flex"))
    assert self_tested(found, "cpu") == found


def test_a_backend_that_is_wrong_is_left_out_with_its_reason(broken_cpu, tmp_path):
    found = self_tested(cpu_profile(2, 8 * GIB), "cpu")
    assert found.backends == ()
    ((name, why),) = found.problems
    assert name == "cpu"
    assert why.startswith("float32 is off by 0.00")
    save_profile(found, tmp_path / "device.json")
    assert load_profile(tmp_path / "device.json") == found


def test_a_backend_that_works_again_is_back():
    failed = dataclasses.replace(
        cpu_profile(2, 8 * GIB), backends=(), problems=(("cpu", "it was broken"),)
    )
    assert self_tested(failed, "cpu") == cpu_profile(2, 8 * GIB)


@pytest.mark.parametrize("backend", ["cpu", "auto"])
def test_who_asks_for_a_broken_backend_is_told_why(broken_cpu, backend):
    request = VideoRequest(
        prompt="a red ball", attention="topk", attention_backend=backend, min_tokens=1
    )
    assert plan(request, cpu_profile(2, 8 * GIB)).attention.backend == "cpu"
    with pytest.raises(BadRequest) as caught:
        plan(request, self_tested(cpu_profile(2, 8 * GIB), "cpu"))
    assert caught.value.field == "attention_backend"
    assert re.fullmatch(
        r"attention_backend=cpu cannot run here: it failed its self-test on this device \(float32 "
        r"is off by 0\.00\d+ where 1e-05 is allowed\); use reference\.",
        str(caught.value),
    )
