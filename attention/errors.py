"""The one error of this package: something asked for that attention cannot do."""


class AttentionError(ValueError):
    """A pattern, a shape or a backend cannot be used as asked; the message says why in a sentence.

    field  the option at fault, e.g. "attention_backend"
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field
