"""Values that a request's fields hold and how they are read from text."""

import re
from fractions import Fraction
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
    model_validator,
)


def _fraction(value: Any) -> Any:
    """Read a frame rate: 16, 12.5, "25/2", "24000/1001"."""
    if value is None or isinstance(value, Fraction):
        return value
    text = str(value).strip()
    if not re.fullmatch(r"\d{1,6}(\.\d{1,9}|/0*[1-9]\d{0,5})?", text):
        raise ValueError("not a rate; write 16, 12.5 or 24000/1001")
    return Fraction(text).limit_denominator(1001)


def _seconds(value: Any) -> Any:
    """Read a duration: 5, 5.0, "5", "5s"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:s|sec|seconds)?\s*", value)
        if match is None:
            raise ValueError("not a duration; write 5 or 5s")
        return float(match[1])
    return value


def _layers(value: Any) -> Any:
    """Read layer numbers: 0, "0,3", "none"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if isinstance(value, str):
        if value.strip() == "none":
            return ()
        parts = value.split(",")
        if not all(re.fullmatch(r"\s*\d{1,4}\s*", part) for part in parts):
            raise ValueError("not layers; write 0 or 0,3 or none")
        return tuple(int(part) for part in parts)
    return value


def _rate_text(rate: Fraction) -> str | int:
    return rate.numerator if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


class Untrusted(BaseModel):
    """What somebody asks for: it does not change, and unknown fields are refused.

    So is what would be read as something else: true or false as a number, NUL as text.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_misread(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and not _takes_bool(kind):
            raise ValueError("must not be true or false")
        if isinstance(value, str) and "\0" in value:
            raise ValueError("holds NUL, which is no text")
        return value


def _takes_bool(kind: Any) -> bool:
    return kind in (bool, Any) or any(_takes_bool(part) for part in get_args(kind))


def _not_blank(value: str) -> str:
    if value and not value.strip():
        raise ValueError("must not be blank")
    return value


Words = Annotated[str, AfterValidator(_not_blank)]
Rate = Annotated[
    Fraction,
    BeforeValidator(_fraction),
    PlainSerializer(_rate_text, return_type=str | int, when_used="json"),
    Field(gt=0, le=240),
]
Duration = Annotated[float, BeforeValidator(_seconds)]
Layers = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=200), BeforeValidator(_layers)
]


class LoraSpec(Untrusted):
    """One LoRA: a safetensors file or folder, its strength and the expert it goes to."""

    path: str = Field(description="safetensors file, or folder with one", min_length=1)
    weight: float = Field(1.0, description="strength", ge=-10, le=10)
    target: Literal["both", "high", "low"] = Field(
        "both", description="expert of a two-expert model: high noise, low noise or both"
    )

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Accept "path", "path:0.8" and "path:0.8:high"."""
        if not isinstance(value, str):
            return value
        number = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
        match = re.fullmatch(rf"(.+?)(?::({number}))?(?::(high|low|both))?", value, re.S)
        if match is None:
            raise ValueError("a LoRA needs a path, e.g. style.safetensors:0.8")
        path, weight, target = match.groups()
        return {"path": path, "weight": float(weight or 1.0), "target": target or "both"}
