"""What the Triton kernels compile to for each GPU generation: registers, memory, instructions.

Run:  python -m benchmarks.kernels [--arch 90] [--head-dim 128] [--compensate none,mean]
Compiles every row of the config table ahead of time; no GPU is needed. A spill (a stack) and
shared memory beyond the limit make the exit status 1. The results file tells by `source` which text
of the kernels it is of.
"""

import argparse
import hashlib
import itertools
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from attention import triton_kernels
from attention.triton_configs import CONFIGS, SHARED_LIMIT, Config

COMPENSATE = ("none", "mean", "mean_var")
KEY_BLOCK = 64
INSTRUCTIONS = ("wgmma.mma_async", "tcgen05.mma", "mma.sync")
_WARP = 32


@dataclass(frozen=True, slots=True)
class Variant:
    """One kernel to compile."""

    arch: int
    head_dim: int
    key_block: int
    compensate: str
    dtype: str = "bf16"
    query_block: int = 128
    ragged: bool = True
    padded: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a variant became.

    shared  bytes per program
    stack   bytes per thread; above 0, registers were spilled
    """

    rows: int
    keys: int
    proxies: int
    warps: int
    stages: int
    proxy_stages: int
    registers: int
    stack: int
    shared: int
    instruction: str
    tma: bool

    def fits(self, variant: Variant) -> bool:
        """Return whether it can run, and without spills."""
        return self.stack == 0 and self.shared <= SHARED_LIMIT[variant.arch]


def variants(archs: list[int], head_dims: list[int], compensate: list[str]) -> list[Variant]:
    """Return the variants of rows of the table."""
    return [
        Variant(arch, head_dim, KEY_BLOCK, kind)
        for (arch, head_dim), kind in itertools.product(CONFIGS, compensate)
        if arch in archs and head_dim in head_dims
    ]


def source(variant: Variant, shape: Config) -> ASTSource:
    """Describe the kernel's arguments as a launch would."""
    function = triton_kernels.attend_blocks
    level = COMPENSATE.index(variant.compensate)
    constants: dict[str, Any] = {
        "HEAD_DIM": variant.head_dim, "ROWS": shape.rows, "KEYS": shape.keys,
        "PROXIES": shape.proxies, "TILES_PER_LIST": variant.query_block // shape.rows,
        "TILES_PER_BLOCK": variant.key_block // shape.keys, "RAGGED": variant.ragged,
        "PADDED": variant.padded, "COMPENSATE": level,
        "TMA": shape.tma, "WIDE": False, "PROXY_STAGES": shape.proxy_stages,
    }  # fmt: skip
    tiles = {"q": shape.rows, "k": shape.keys, "v": shape.keys}
    if level:
        tiles |= {"proxy_keys": shape.proxies, "proxy_values": shape.proxies}
    if level == 2:
        tiles["proxy_variances"] = shape.proxies
    types = {"out": f"*{variant.dtype}", "proxy_sizes": "*i64", "scale": "fp32"}
    lists = ("blocks", "counts", "key_sizes", "read_words")
    types |= dict.fromkeys((*lists, "proxy_keys", "proxy_values", "proxy_variances"), "*i32")
    for name, tile in tiles.items():
        box = f"tensordesc<{variant.dtype}[1, 1, {tile}, {variant.head_dim}]>"
        types[name] = box if shape.tma else f"*{variant.dtype}"
    names = function.arg_names
    signature = {name: "constexpr" if name in constants else types.get(name, "i32")
                 for name in names}  # fmt: skip
    aligned = [
        index for index, name in enumerate(names)
        if signature[name].startswith("*") or re.match(r"(q|k|v|out)_s.$", name)
    ]  # fmt: skip
    return ASTSource(
        function,
        signature,
        {(names.index(name),): value for name, value in constants.items()},
        {(index,): [["tt.divisibility", 16]] for index in aligned},
    )


def compile_variant(variant: Variant, shape: Config | None = None) -> Compiled:
    """Compile a variant in the table's shape or another."""
    shape = (shape or CONFIGS[variant.arch, variant.head_dim]).tile(
        variant.query_block, variant.key_block
    )
    kernel = triton.compile(
        source(variant, shape),
        target=GPUTarget("cuda", variant.arch, _WARP),
        options={"num_warps": shape.warps, "num_stages": shape.stages},
    )
    registers, stack = resources(kernel.asm["cubin"])
    text = kernel.asm["ptx"]
    found = [name for name in INSTRUCTIONS if name in text]
    return Compiled(
        shape.rows, shape.keys, shape.proxies, shape.warps, shape.stages, shape.proxy_stages,
        registers, stack, kernel.metadata.shared, ", ".join(found), "cp.async.bulk.tensor" in text,
    )  # fmt: skip


def resources(cubin: bytes) -> tuple[int, int]:
    """Return registers per thread and bytes of stack of a compiled kernel."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said = subprocess.run(
            [str(tool), "--dump-resource-usage", file.name],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    assert found is not None, said
    return int(found[1]), int(found[2])


def source_hash() -> str:
    """Return what changes with every change to the kernels' text, in 16 hexadecimal digits."""
    return hashlib.sha256(Path(triton_kernels.__file__).read_bytes()).hexdigest()[:16]


HEAD = (
    "| arch | head dim | blocks | compensate | tile | warps | stages | registers | stack | "
    "shared KiB (limit) | instruction | TMA |\n|" + "---|" * 12
)


def line(variant: Variant, compiled: Compiled) -> str:
    """Return a row of the table in markdown."""
    limit = SHARED_LIMIT[variant.arch] // 1024
    cells = (
        f"sm_{variant.arch}", variant.head_dim, f"{variant.query_block}x{variant.key_block}",
        variant.compensate, f"{compiled.rows}x{compiled.keys}", compiled.warps, compiled.stages,
        compiled.registers, compiled.stack, f"{compiled.shared / 1024:.0f} ({limit})",
        compiled.instruction, "yes" if compiled.tma else "no",
    )  # fmt: skip
    return "| " + " | ".join(map(str, cells)) + " |"


def numbers(text: str) -> list[int]:
    """Read a list of whole numbers."""
    return [int(part) for part in text.split(",")]


def main() -> int:
    """Compile, print the table, write the results file; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", type=numbers, default=sorted(SHARED_LIMIT))
    parser.add_argument("--head-dim", type=numbers, default=[32, 64, 128])
    parser.add_argument("--compensate", type=lambda text: text.split(","), default=list(COMPENSATE))
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    print(f"triton {triton.__version__}\n\n{HEAD}", flush=True)
    rows, fits = [], True
    for variant in variants(options.arch, options.head_dim, options.compensate):
        variant = replace(variant, dtype=options.dtype)
        compiled = compile_variant(variant)
        fits &= compiled.fits(variant)
        rows.append({**asdict(variant), **asdict(compiled)})
        print(line(variant, compiled), flush=True)
    write(options.out, rows)
    return 0 if fits else 1


def write(out: Path | None, rows: list[dict[str, Any]]) -> None:
    """Write the results file."""
    from benchmarks.report import OUT, report, write_report

    command = " ".join(["python -m benchmarks.kernels", *sys.argv[1:]])
    content = report(command, triton=triton.__version__, source=source_hash(), rows=rows)
    out = out or OUT / f"{content['date']}-kernels.json"
    write_report(out, content)
    print(f"\nwritten: {out}")


if __name__ == "__main__":
    sys.exit(main())
