"""The 3-D grid of tokens that a video model attends over."""

from dataclasses import dataclass

from attention.errors import check_whole


@dataclass(frozen=True, slots=True)
class Grid:
    """Tokens of one clip: latent frames x rows x columns, in raster order.

    frames, rows, columns   >= 1, after the model's patching
    """

    frames: int
    rows: int
    columns: int

    def __post_init__(self) -> None:
        for name in ("frames", "rows", "columns"):
            check_whole(name, getattr(self, name), 1)

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.frames * self.rows * self.columns

    def __str__(self) -> str:
        return f"{self.frames}x{self.rows}x{self.columns}"
