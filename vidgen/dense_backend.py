"""Dense self-attention by another library than torch, attached to transformers and taken off."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from attention.dense import DenseAttention, dense_attention
from vidgen.projections import output, projected, self_attentions


class DenseProcessor:
    """Self-attention of a Wan block by a library; takes the place of `WanAttnProcessor`."""

    _attention_backend = None
    _parallel_config = None

    def __init__(self, attend: DenseAttention) -> None:
        self._attend = attend

    def __call__(
        self,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        rotary_emb: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        assert encoder_hidden_states is None
        assert attention_mask is None
        q, k, v = (x.transpose(1, 2) for x in projected(attn, hidden_states, rotary_emb))
        return output(attn, self._attend(q, k, v).transpose(1, 2))


@contextmanager
def dense_attached(backend: str, *transformers: nn.Module) -> Iterator[None]:
    """Have a backend compute all self-attention; torch's own, sdpa, is the stock path as it is."""
    with ExitStack() as stack:
        if backend != "sdpa":
            processor = DenseProcessor(dense_attention(backend))
            for _, attn in (pair for each in transformers for pair in self_attentions(each)):
                stack.callback(setattr, attn, "processor", attn.processor)
                attn.processor = processor
        yield
