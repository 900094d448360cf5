"""How many tokens a prompt has, counted without torch."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of a prompt; the two bounds are equal where the model's tokenizer is at hand."""

    at_least: int
    at_most: int

    @property
    def exact(self) -> bool:
        """Whether the count is known, not bounded."""
        return self.at_least == self.at_most

    def __str__(self) -> str:
        return f"{self.at_least}" if self.exact else f"{self.at_least} to {self.at_most}"


def count_tokens(prompt: str, folder: Path | None) -> TokenCount:
    """Count the tokens of a prompt with the tokenizer in a model's folder.

    Without one, each word is at least one token and each UTF-8 byte at most one, plus the end mark.
    """
    path = None if folder is None else folder / "tokenizer" / "tokenizer.json"
    if path is not None and path.is_file():
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        count = len(tokenizer.encode(prompt).ids)
        return TokenCount(count, count)
    return TokenCount(len(prompt.split()) + 1, len(prompt.encode()) + 1)
