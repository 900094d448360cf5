"""Dense attention by other libraries, each with one signature. The package that one needs is
imported when it is called; what is missing is an error.
"""

from typing import Protocol

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attention.errors import AttentionError

# b batch  h heads  n query tokens  m key tokens  d head dim


class DenseAttention(Protocol):
    """Attention of every query over every key: any strides in, [b, h, n, d] out."""

    def __call__(
        self, q_bhnd: Tensor, k_bhmd: Tensor, v_bhmd: Tensor, *, scale: float | None = None
    ) -> Tensor: ...


def dense_attention(backend: str) -> DenseAttention:
    """Return a backend's function; the name comes from `choose`."""
    if backend == "flash":
        return attend_flash
    if backend == "sage":
        return attend_sage
    assert backend == "sdpa", backend
    return attend_sdpa


def attend_sdpa(
    q_bhnd: Tensor, k_bhmd: Tensor, v_bhmd: Tensor, *, scale: float | None = None
) -> Tensor:
    """Compute dense attention with torch."""
    return scaled_dot_product_attention(q_bhnd, k_bhmd, v_bhmd, scale=scale)


def attend_flash(
    q_bhnd: Tensor, k_bhmd: Tensor, v_bhmd: Tensor, *, scale: float | None = None
) -> Tensor:
    """Compute dense attention with flash-attn (CUDA; bfloat16 and float16).

    Raises  AttentionError if flash-attn is not installed
    """
    try:
        from flash_attn import flash_attn_func
    except ImportError as error:
        raise _missing("flash", "flash-attn", error) from error
    q_bnhd, k_bmhd, v_bmhd = (x.transpose(1, 2) for x in (q_bhnd, k_bhmd, v_bhmd))
    out_bnhd: Tensor = flash_attn_func(q_bnhd, k_bmhd, v_bmhd, softmax_scale=scale)
    return out_bnhd.transpose(1, 2)


def attend_sage(
    q_bhnd: Tensor, k_bhmd: Tensor, v_bhmd: Tensor, *, scale: float | None = None
) -> Tensor:
    """Compute dense attention with SageAttention: products of 8-bit integers, so not exact (CUDA).

    Raises  AttentionError if sageattention is not installed
    """
    try:
        from sageattention import sageattn
    except ImportError as error:
        raise _missing("sage", "sageattention", error) from error
    out_bhnd: Tensor = sageattn(q_bhnd, k_bhmd, v_bhmd, tensor_layout="HND", sm_scale=scale)
    return out_bhnd


def _missing(backend: str, package: str, error: ImportError) -> AttentionError:
    return AttentionError(
        f"attention_backend={backend} needs the package {package}, which does not import "
        f"({error}); install it, or use attention_backend=auto.",
        field="attention_backend",
    )
