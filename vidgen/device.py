"""What is known about a device, as plain data that any process can hold: a table, a look, a file.

The process that owns a device measures it; planning only reads the result. No torch is imported.
"""

import dataclasses
import difflib
import importlib.metadata
import itertools
import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from vidgen.errors import BadRequest, NotFound

GIB = 2**30
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Rates:
    """Sustained rates of a device.

    attention, linear   Tflop/s of 16-bit numbers on a GPU, of float32 on a CPU
    vae_float32, vae_bfloat16   Tflop/s of 3-D convolutions
    memory_gb_s, transfer_gb_s  GB/s of device memory and of host-to-device copies
    spread              a predicted time t is expected from t / (1 + spread) to t * (1 + spread)
    source              "table", "guess" or "measured", with its date or reason
    peak                Tflop/s of 16-bit products (CPU: float32) that nothing can exceed
    float32_share       speed of float32 products as a share of the 16-bit ones; 1 on a CPU
    call_seconds        time to issue one tensor operation
    """

    attention: float
    linear: float
    vae_float32: float
    vae_bfloat16: float
    memory_gb_s: float
    transfer_gb_s: float
    spread: float
    source: str
    peak: float = 2250.0  # of the fastest GPU sold today (B200)
    float32_share: float = 1.0
    call_seconds: float = 8e-6


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """One device.

    name            e.g. "cpu", "nvidia-h200"
    title           for people
    capability      CUDA compute capability, (0, 0) for a CPU
    memory_bytes    of the device; for a CPU the same as host_bytes
    host_bytes      RAM of the machine
    backends        attention backends beside reference and sdpa: those that are installed; after
                    `self_tested`, those of them that work
    problems        after `self_tested`: backends that do not work, each with one clause on why
    """

    name: str
    title: str
    kind: Literal["cpu", "cuda"]
    capability: tuple[int, int]
    memory_bytes: int
    host_bytes: int
    rates: Rates
    backends: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


TABLE_SPREAD = 0.25
GUESS_SPREAD = 1.0
_TABLE = "table of 2026-11"


def _gpu(
    name: str,
    title: str,
    capability: tuple[int, int],
    memory_mib: int,
    host_gib: int,
    figures: tuple[float, ...],
) -> DeviceProfile:
    """Make a row; figures: attention, linear, VAE fp32, VAE bf16, memory TB/s, peak, fp32 share."""
    attention, linear, vae_float32, vae_bfloat16, memory_tb_s, peak, share = figures
    return DeviceProfile(
        name=f"nvidia-{name}",
        title=f"NVIDIA {title}",
        kind="cuda",
        capability=capability,
        memory_bytes=memory_mib * MIB,
        host_bytes=host_gib * GIB,
        rates=Rates(
            attention=attention,
            linear=linear,
            vae_float32=vae_float32,
            vae_bfloat16=vae_bfloat16,
            memory_gb_s=memory_tb_s * 1000,
            transfer_gb_s=25.0,
            spread=TABLE_SPREAD,
            source=_TABLE,
            peak=peak,
            float32_share=share,
        ),
        backends=("triton",),
    )


# Sustained rates, chosen on 2026-11-29 with published timings in sight (docs/measuring.md). An A800
# is taken to compute like an A100, a 4090 D like a 4090. Peaks and float32 shares are from the
# makers' data sheets (dense, float32 accumulation).
# Host memory is an assumption.
_A100 = (160, 190, 55, 70, 1.7, 312, 0.06)
_4090 = (135, 125, 30, 50, 0.9, 165, 0.5)
_GPUS: tuple[tuple[str, DeviceProfile], ...] = (
    (r"A100.*80GB", _gpu("a100-80gb", "A100 80 GB", (8, 0), 81920, 256, _A100)),
    (r"A800.*80GB", _gpu("a800-80gb", "A800 80 GB", (8, 0), 81920, 256, _A100)),
    (r"H100 (80GB HBM3|SXM)", _gpu("h100", "H100 SXM 80 GB", (9, 0), 81559, 256,
                                   (610, 620, 70, 150, 3.0, 989, 0.065))),
    (r"H200( SXM)?$", _gpu("h200", "H200 141 GB", (9, 0), 143771, 256,
                           (640.5, 651, 73.5, 157.5, 4.2, 989, 0.065))),
    (r"RTX 4090$", _gpu("rtx-4090", "GeForce RTX 4090", (8, 9), 24564, 64, _4090)),
    (r"RTX 4090 ?D$", _gpu("rtx-4090d", "GeForce RTX 4090 D", (8, 9), 24564, 64, _4090)),
    (r"RTX 5090$", _gpu("rtx-5090", "GeForce RTX 5090", (12, 0), 32607, 64,
                        (170, 195, 35, 70, 1.6, 209.5, 0.5))),
)  # fmt: skip


def cpu_profile(cores: int, memory_bytes: int, title: str = "") -> DeviceProfile:
    """Return the profile of a CPU of that many cores, without measuring it.

    Rates per core as measured on a shared 2-core server (AVX2), 2026-11-29: 50 Gflop/s in matrix
    products and attention, 8 to 45 in the VAE's convolutions, 5 GB/s in elementwise work. The peak
    is that of two 512-bit units at 4.7 GHz.
    """
    effective = cores**0.9  # more cores share memory and wait for each other
    vae = 0.022 * effective
    rates = Rates(
        attention=0.050 * effective,
        linear=0.050 * effective,
        vae_float32=vae,
        vae_bfloat16=vae,
        memory_gb_s=min(5.0 * effective, 200.0),
        transfer_gb_s=min(5.0 * effective, 200.0),
        spread=GUESS_SPREAD,
        source=f"guess from {cores} CPU cores",
        peak=0.3 * cores,
        call_seconds=12e-6,
    )
    title = title or f"CPU, {cores} cores"
    return DeviceProfile(
        "cpu", title, "cpu", (0, 0), memory_bytes, memory_bytes, rates, backends=("cpu",)
    )


def profiles() -> dict[str, DeviceProfile]:
    """Return every profile that has a name."""
    rows = [cpu_profile(8, 32 * GIB), *(row for _, row in _GPUS)]
    return {row.name: row for row in rows}


def named(name: str) -> DeviceProfile:
    """Return a profile of the table.

    Raises  NotFound with the nearest names
    """
    known = profiles()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.4)
    near = near or [item for item in known if name.lower() in item]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}."
    raise NotFound(f"Device {name!r} is not in the table; {hint}", field="device")


def this_machine(stored: Path | None = None, gpu: str | None = "0") -> DeviceProfile:
    """Return what is known about this machine: a stored profile, else a GPU, else its CPU.

    stored  where a measured profile may lie (VIDGEN_HOME/device.json); if it is there it wins
    gpu     see `this_gpu`
    """
    if stored is not None and stored.is_file():
        return load_profile(stored)
    return this_gpu(gpu) or this_cpu()


def this_gpu(gpu: str | None) -> DeviceProfile | None:
    """Return what is known about a GPU of this machine, None without it.

    gpu  its index or UUID, as nvidia-smi takes it; None for no GPU
    A torch build that cannot use a GPU counts as a machine without one.
    """
    found = None if gpu is None or _torch_is_for_cpu() else _nvidia(gpu)
    return None if found is None else _gpu_profile(*found, host_bytes=_host_bytes())


def visible_gpu(index: int, visible: str | None) -> str | None:
    """Return what nvidia-smi calls torch's cuda:index, None if there is no such GPU.

    visible  CUDA_VISIBLE_DEVICES; CUDA does not look beyond its first entry that is no GPU
    """
    if visible is None:
        return str(index)
    names = [name.strip() for name in visible.split(",")]
    known = list(itertools.takewhile(re.compile(r"\d+|GPU-.+|MIG-.+").fullmatch, names))
    return known[index] if index < len(known) else None


def this_cpu() -> DeviceProfile:
    """Return what is known about this machine's CPU."""
    found = cpu_profile(_cores(), _host_bytes())
    return dataclasses.replace(found, backends=_installed_backends("cpu"))


def self_tested(profile: DeviceProfile, device: str) -> DeviceProfile:
    """Return a profile that lists only the backends that pass their self-test on its device.

    For the process that owns the device: it loads torch and computes. A backend that is slow to
    test (`attention.self_test.SLOW`) stays as it is.
    device  as torch calls it: "cpu", "cuda:0"
    """
    from attention.self_test import SLOW, self_test

    listed = (*profile.backends, *dict(profile.problems))
    found = self_test(device, [name for name in listed if name not in SLOW])
    problems = {name: item.problem for name, item in found.items() if item.problem}
    backends = tuple(name for name in listed if name not in problems)
    return dataclasses.replace(profile, backends=backends, problems=tuple(problems.items()))


def _installed_backends(kind: str) -> tuple[str, ...]:
    """Return the attention backends whose packages are installed; nothing is imported."""
    compiler = any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl"))
    if kind == "cpu":
        return ("cpu", *(("flex",) if compiler else ()))
    packages = {
        "triton": "triton",
        "flex": "triton",
        "flash": "flash_attn",
        "sage": "sageattention",
    }
    return tuple(name for name, package in packages.items() if find_spec(package) is not None)


def _torch_is_for_cpu() -> bool:
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False


def _nvidia(gpu: str) -> tuple[str, int, tuple[int, int]] | None:
    """Return name, memory in bytes and capability of an NVIDIA GPU, None without it."""
    # Of a part of a GPU (MIG) nvidia-smi tells nothing; the first whole one stands for it.
    command = ["nvidia-smi", *(() if gpu.startswith("MIG-") else ("-i", gpu)),
               "--query-gpu=name,memory.total,compute_cap",
               "--format=csv,noheader,nounits"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode("utf-8", "replace")
    for line in text.splitlines() if done.returncode == 0 else ():
        match = re.fullmatch(r"\s*(\S.*?)\s*,\s*(\d+)\s*,\s*(\d+)\.(\d+)\s*", line)
        if match is not None and int(match[2]) > 0:
            return match[1], int(match[2]) * MIB, (int(match[3]), int(match[4]))
    return None


def _gpu_profile(
    title: str, memory_bytes: int, capability: tuple[int, int], *, host_bytes: int
) -> DeviceProfile:
    """Return the table's rates for a GPU of that name, else conservative ones."""
    known = next((row for pattern, row in _GPUS if re.search(pattern, title)), None)
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    name = name if name.startswith("nvidia-") else f"nvidia-{name}"
    return DeviceProfile(
        name=name if known is None else known.name,
        title=title,
        kind="cuda",
        capability=capability,
        memory_bytes=memory_bytes,
        host_bytes=host_bytes,
        rates=_guessed(memory_bytes, capability, title) if known is None else known.rates,
        backends=_installed_backends("cuda"),
    )


def _guessed(memory_bytes: int, capability: tuple[int, int], title: str) -> Rates:
    """Scale a known GPU down: in one generation, those with more memory are the faster ones."""
    server = capability >= (9, 0) and memory_bytes > 64 * GIB
    like = named("nvidia-h100" if server else "nvidia-rtx-4090")
    share = 0.6 * min(1.0, max(0.25, memory_bytes / like.memory_bytes))
    if capability < (8, 0):
        share *= 0.5
    rates = like.rates
    return Rates(
        attention=rates.attention * share,
        linear=rates.linear * share,
        vae_float32=rates.vae_float32 * share,
        vae_bfloat16=rates.vae_bfloat16 * share,
        memory_gb_s=rates.memory_gb_s * share,
        transfer_gb_s=rates.transfer_gb_s / 2,
        spread=GUESS_SPREAD,
        source=f"guess: {title} is not in the table; {share:.2f} of {like.title}",
        float32_share=rates.float32_share,
    )


def _cores() -> int:
    """Return the CPU cores that this process may use, a container's quota included."""
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    quota, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    if quota.isdigit() and period.strip().isdigit() and int(period) > 0:
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def _host_bytes() -> int:
    """Return the RAM that this process may use, a container's limit included."""
    import psutil

    total = int(psutil.virtual_memory().total)
    limit = _read(Path("/sys/fs/cgroup/memory.max"))
    return min(total, int(limit)) if limit.isdigit() and int(limit) > 0 else total


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def save_profile(profile: DeviceProfile, path: Path) -> None:
    """Write a profile as JSON; the file is complete or is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(dataclasses.asdict(profile), indent=2) + "\n", "utf-8")
    part.replace(path)


def load_profile(path: Path) -> DeviceProfile:
    """Read a profile that `save_profile` wrote.

    Raises  NotFound without the file, BadRequest with the reason when it is not a profile
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        return parse_profile(data)
    except FileNotFoundError:
        raise NotFound(f"Device profile {path} does not exist.", field="device") from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadRequest(
            f"{path} is not a device profile ({error}); delete it or measure the device again.",
            field="device",
        ) from error


def parse_profile(data: Any) -> DeviceProfile:
    """Make a profile of untrusted JSON; raises ValueError, TypeError or KeyError."""
    fields = {item.name for item in dataclasses.fields(DeviceProfile)}
    if not isinstance(data, dict) or set(data) != fields:
        raise ValueError(f"it needs exactly the keys {', '.join(sorted(fields))}")
    rates = Rates(**data["rates"])
    for item in dataclasses.fields(Rates):
        value = getattr(rates, item.name)
        if item.name != "source" and not (
            isinstance(value, int | float) and math.isfinite(value) and value > 0
        ):
            raise ValueError(f"rates.{item.name}={value!r} is not a positive number")
    kind = data["kind"]
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"kind={kind!r} is not cpu or cuda")
    major, minor = data["capability"]
    profile = DeviceProfile(
        name=str(data["name"]),
        title=str(data["title"]),
        kind=kind,
        capability=(int(major), int(minor)),
        memory_bytes=int(data["memory_bytes"]),
        host_bytes=int(data["host_bytes"]),
        rates=rates,
        backends=tuple(str(name) for name in data["backends"]),
        problems=tuple((str(name), str(why)) for name, why in data["problems"]),
    )
    if min(profile.memory_bytes, profile.host_bytes) <= 0:
        raise ValueError("memory_bytes and host_bytes must be positive")
    return profile
