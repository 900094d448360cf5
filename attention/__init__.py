"""Block-sparse attention over a 3-D token grid. It knows tensors and grids; no models, no files.

    layout = Layout(Grid(21, 30, 52))                  # 5 s of 480p
    order = layout_order(layout)                       # tokens so that neighbours share a block
    q, k, v = (x[:, :, order] for x in (q, k, v))      # [batch, heads, tokens, head dim]
    pattern = TopK(density=0.125)
    selection = select(q, k, layout, pattern)          # which key blocks each query block reads
    proxies = make_proxies(k, v, layout.key_block, pattern.compensate)
    out = executor("cpu")(q, k, v, selection, proxies)[:, :, inverse_order(order)]

Importing this package loads no torch: names that need it are looked up when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attention.choose import Choice, Host, choose
from attention.errors import AttentionError
from attention.grid import Grid
from attention.patterns import Dense, TopK, Window
from attention.trained.patterns import Bsa, Nabla, Sla, Vsa

if TYPE_CHECKING:
    from attention.executors import executor
    from attention.layout import Layout, layout_order
    from attention.order import inverse_order, token_order
    from attention.proxies import Proxies, make_proxies
    from attention.router import select
    from attention.selection import Selection

__all__ = [
    "AttentionError",
    "Bsa",
    "Choice",
    "Dense",
    "Grid",
    "Host",
    "Layout",
    "Nabla",
    "Proxies",
    "Selection",
    "Sla",
    "TopK",
    "Vsa",
    "Window",
    "choose",
    "executor",
    "inverse_order",
    "layout_order",
    "make_proxies",
    "select",
    "token_order",
]

_HOMES = {
    "Layout": "layout",
    "Proxies": "proxies",
    "Selection": "selection",
    "executor": "executors",
    "inverse_order": "order",
    "layout_order": "layout",
    "make_proxies": "proxies",
    "select": "router",
    "token_order": "order",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'attention' has no attribute {name!r}")
    return getattr(import_module(f"attention.{_HOMES[name]}"), name)
