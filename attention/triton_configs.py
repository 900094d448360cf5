"""How the Triton kernels are shaped for each GPU generation: one table, read once per launch."""

from dataclasses import dataclass, replace
from types import MappingProxyType

from attention.errors import AttentionError

HEAD_DIMS = (32, 64, 128)
SHARED_LIMIT = {80: 166_912, 89: 101_376, 90: 232_448, 100: 232_448, 120: 101_376}  # bytes


@dataclass(frozen=True, slots=True)
class Config:
    """Shape of one kernel.

    rows, keys    most query rows and keys of a tile; smaller blocks have smaller tiles
    proxies       proxies read at a time
    warps         of a tile with all its rows
    stages        tiles of keys and of values in flight
    proxy_stages  tiles of proxies in flight
    tma           load through tensor descriptors where strides and alignment allow
    programs      programs per multiprocessor; they stay and work through the tiles
    """

    rows: int
    keys: int
    proxies: int
    warps: int
    stages: int
    proxy_stages: int
    tma: bool
    programs: int

    def tile(self, query_block: int, key_block: int) -> "Config":
        """Return the shape for a layout's blocks: the largest tiles that divide them."""
        rows = min(self.rows, query_block & -query_block)
        keys = min(self.keys, key_block)
        warps = self.warps if rows == self.rows else min(self.warps, 4)
        return replace(self, rows=rows, keys=keys, warps=warps)


# By architecture and head dimension; bfloat16 and float16 share a row. Each row compiles within
# its architecture's shared memory and without spills (`benchmarks/kernels.py` shows the figures).
CONFIGS = MappingProxyType(
    {
        (80, 32): Config(128, 64, 32, 8, 3, 2, False, 1),
        (80, 64): Config(128, 64, 32, 8, 3, 1, False, 1),
        (80, 128): Config(128, 32, 32, 8, 4, 1, False, 1),
        (89, 32): Config(128, 64, 32, 8, 3, 2, False, 1),
        (89, 64): Config(128, 64, 32, 8, 3, 1, False, 1),
        (89, 128): Config(128, 32, 32, 8, 3, 1, False, 1),
        (90, 32): Config(128, 64, 64, 8, 4, 2, True, 2),
        (90, 64): Config(128, 64, 64, 8, 4, 2, True, 1),
        (90, 128): Config(128, 64, 64, 8, 3, 2, True, 1),
        (100, 32): Config(128, 64, 64, 8, 4, 2, True, 1),
        (100, 64): Config(128, 64, 64, 8, 4, 2, True, 1),
        (100, 128): Config(128, 64, 32, 8, 3, 1, True, 1),
        (120, 32): Config(128, 64, 64, 8, 3, 2, True, 1),
        (120, 64): Config(128, 64, 32, 8, 3, 2, True, 1),
        (120, 128): Config(128, 32, 32, 8, 3, 1, True, 1),
    }
)


def architecture(capability: tuple[int, int]) -> int:
    """Return the generation whose configs a GPU takes."""
    major, minor = capability
    if major == 8:
        return 80 if minor == 0 else 89
    if major in (9, 12):
        return major * 10
    if major in (10, 11):
        return 100
    raise AttentionError(
        f"The Triton kernels are shaped for sm80 to sm120, this GPU is sm{major}{minor}; use "
        "attention_backend=reference.",
        field="attention_backend",
    )


def config(arch: int, head_dim: int) -> Config:
    """Return a row of the table.

    Raises  AttentionError for a head dimension that has none
    """
    if head_dim not in HEAD_DIMS:
        raise AttentionError(
            f"The Triton kernels do head dimensions {', '.join(map(str, HEAD_DIMS))}, these heads "
            f"have {head_dim}; use attention_backend=reference.",
            field="attention_backend",
        )
    return CONFIGS[arch, head_dim]
