"""Sparse attention that checkpoints were trained with, as published: VSA, SLA, BSA and NABLA.

    pattern = Vsa(sparsity=0.8)
    layout = vsa_layout(grid)                              # cubes of 4x4x4 tokens, padded
    q, k, v, gate = (x[:, :, layout.order_n] for x in (q, k, v, gate))
    out, _ = attend_vsa(q, k, v, gate, layout, pattern, executor("cpu"))

A pattern of this kind belongs to its weights: a model that was not trained with it gives noise, and
so does a trained one without the weights that the pattern adds (`extra_weights`). A processor that
holds any of them calls `prepare` once per grid, brings its tokens into `order_n` of what that
returns, and calls `attend_trained` in every layer, after its rotary embedding.

Importing this package loads no torch: names that need it are looked up when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attention.trained.patterns import Bsa, Nabla, Sla, Trained, Vsa
from attention.trained.weights import extra_weights, layer_and_part, require_weights

if TYPE_CHECKING:
    from attention.trained.attend import Prepared, attend_trained, prepare
    from attention.trained.bsa import attend_bsa, bsa_order, select_bsa
    from attention.trained.nabla import attend_nabla, nabla_near, nabla_order, select_nabla
    from attention.trained.sla import attend_sla, select_sla
    from attention.trained.tiles import Attended, TileLayout
    from attention.trained.vsa import attend_vsa, select_vsa, vsa_layout

__all__ = [
    "Attended",
    "Bsa",
    "Nabla",
    "Prepared",
    "Sla",
    "TileLayout",
    "Trained",
    "Vsa",
    "attend_bsa",
    "attend_nabla",
    "attend_sla",
    "attend_trained",
    "attend_vsa",
    "bsa_order",
    "extra_weights",
    "layer_and_part",
    "nabla_near",
    "nabla_order",
    "prepare",
    "require_weights",
    "select_bsa",
    "select_nabla",
    "select_sla",
    "select_vsa",
    "vsa_layout",
]

_HOMES = {
    "Attended": "tiles",
    "Prepared": "attend",
    "TileLayout": "tiles",
    "attend_bsa": "bsa",
    "attend_nabla": "nabla",
    "attend_sla": "sla",
    "attend_trained": "attend",
    "attend_vsa": "vsa",
    "bsa_order": "bsa",
    "nabla_near": "nabla",
    "nabla_order": "nabla",
    "prepare": "attend",
    "select_bsa": "bsa",
    "select_nabla": "nabla",
    "select_sla": "sla",
    "select_vsa": "vsa",
    "vsa_layout": "vsa",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attention.trained' has no attribute {name!r}")
    return getattr(import_module(f"attention.trained.{_HOMES[name]}"), name)
