"""One forward of a Wan-1.3B-shaped transformer with random weights, dense and sparse."""

from typing import Any

import torch

from benchmarks.gpu_timing import interleaved, summary

WAN_1_3B: dict[str, Any] = {
    "patch_size": (1, 2, 2), "num_attention_heads": 12, "attention_head_dim": 128,
    "in_channels": 16, "out_channels": 16, "text_dim": 4096, "freq_dim": 256, "ffn_dim": 8960,
    "num_layers": 30, "cross_attn_norm": True, "qk_norm": "rms_norm_across_heads", "eps": 1e-6,
}  # fmt: skip
LATENT = (1, 16, 21, 60, 104)  # 81 frames of 832x480: 32,760 tokens
TEXT_TOKENS = 512


def measure_step(density: float = 0.125, latent: tuple[int, ...] = LATENT) -> dict[str, Any]:
    """Return the times of a dense and a sparse forward; `skipped` says what was missing."""
    try:
        from diffusers import WanTransformer3DModel
    except ImportError as error:
        return {"skipped": f"diffusers does not import: {error}"}
    with torch.device("cuda"):
        model = WanTransformer3DModel(**WAN_1_3B).to(torch.bfloat16).eval()
        hidden = torch.randn(latent, dtype=torch.bfloat16)
        text = torch.randn((1, TEXT_TOKENS, WAN_1_3B["text_dim"]), dtype=torch.bfloat16)
        moment = torch.tensor([500.0])

    @torch.no_grad()
    def forward() -> Any:
        return model(hidden_states=hidden, timestep=moment, encoder_hidden_states=text,
                     return_dict=False)[0]  # fmt: skip

    forward()
    calls = {"dense": forward}
    reason = add_sparse(calls, model, forward, density)
    for call in calls.values():
        call()
    times, clocks = interleaved(list(calls.values()))
    found: dict[str, Any] = {name: summary(row) for name, row in zip(calls, times, strict=True)}
    if reason:
        found["skipped"] = reason
    else:
        found["speed_up"] = round(found["dense"]["ms"] / found["sparse"]["ms"], 3)
    return {**found, "density": density, "latent": list(latent), "clocks_mhz": clocks}


def add_sparse(
    calls: dict[str, Any], model: Any, forward: Any, density: float, backend: str = "triton"
) -> str | None:
    """Add a forward with sparse attention attached; return why it cannot be had."""
    try:
        from attention import TopK
        from vidgen.attention_plan import AttentionPlan
        from vidgen.sparse import Moment, SparseSession
    except ImportError as error:
        return f"sparse attention of transformers does not import: {error}"
    plan = AttentionPlan(TopK(density=density), backend, "benchmark")

    def sparse() -> Any:
        with SparseSession(plan, lambda _: Moment(0, 0.5)).attached(model):
            return forward()

    calls["sparse"] = sparse
    return None
