"""One deviation of what was done from what was asked; it is shown everywhere and never hidden."""

from dataclasses import asdict, dataclass

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A change that had to be made to a request.

    field  name of the request field, e.g. "num_frames"
    asked  what the user gave, as JSON-ready data
    used   what is used instead
    why    one sentence with the rule behind it
    """

    field: str
    asked: Value
    used: Value
    why: str

    def as_dict(self) -> dict[str, Value]:
        """Return the adjustment as JSON-ready data."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.field}: {self.asked} -> {self.used} ({self.why})"
