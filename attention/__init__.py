"""Block-sparse attention over a 3-D token grid. It knows tensors and grids; no models, no files."""

from attention.grid import Grid

__all__ = ["Grid"]
