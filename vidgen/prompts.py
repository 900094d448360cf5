"""How many tokens a prompt has, counted without torch, and what becomes of those over the limit."""

from dataclasses import dataclass
from pathlib import Path

from vidgen.adjustment import Adjustment
from vidgen.families import Family
from vidgen.models import Model


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


def count_tokens(prompt: str, model: Model) -> TokenCount:
    """Count the tokens of a prompt with the model's tokenizer, where that lies on this disk.

    Without one, each word is at least one token and each UTF-8 byte at most one, plus the end mark.
    """
    path = _tokenizer_file(model)
    if path is not None:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        count = len(tokenizer.encode(prompt).ids)
        return TokenCount(count, count)
    return TokenCount(len(prompt.split()) + 1, len(prompt.encode()) + 1)


def _tokenizer_file(model: Model) -> Path | None:
    folder = model.folder
    if folder is None and model.hub_id:
        from vidgen.hub import cached_folder

        folder = cached_folder(model.hub_id)
    path = None if folder is None else folder / "tokenizer" / "tokenizer.json"
    return path if path is not None and path.is_file() else None


def too_long(field: str, count: TokenCount, family: Family) -> Adjustment | None:
    """Return the adjustment for a text of which the model does not read all, or None."""
    limit = family.text_length
    if count.at_least <= limit:
        return None
    least = "" if count.exact else "at least "
    return Adjustment(
        field,
        f"{least}{count.at_least} tokens",
        f"the first {limit} tokens",
        f"{family.name} reads {limit} tokens",
    )
