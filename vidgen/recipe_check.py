"""The shape of a recipe that anyone may have changed: what is read of it is there, of its kind."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vidgen.errors import BadMedia

_Count = Annotated[int, Field(ge=1)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Asked(_Part):
    prompt: str


class _Lora(_Part):
    path: str


class _Made(_Part):
    model: str
    family: str
    task: str
    width: _Count
    height: _Count
    export_width: _Count
    export_height: _Count
    num_frames: _Count
    fps: Annotated[str, Field(pattern=r"^[1-9]\d{0,9}(/[1-9]\d{0,9})?$")]
    seconds: float
    seed: int
    steps: int
    scheduler: str
    flow_shift: float
    guidance_scale: float
    dtype: str
    vae_dtype: str
    vae_tiling: Literal["whole", "tiles", "whole_then_tiles"]
    attention: str
    attention_backend: str
    fidelity: str
    loras: list[_Lora]
    notes: list[str]


class _Change(_Part):
    field: str
    asked: Any
    used: Any
    why: str


class _Trace(_Part):
    seconds: dict[str, float]
    peak_bytes: dict[str, int]


class _Recipe(_Part):
    request: _Asked
    plan: _Made
    weights: str
    files: dict[str, str]
    latents_sha256: str
    inputs: dict[str, str]
    environment: dict[str, str]
    adjustments: list[_Change]
    trace: _Trace
    finish: list[Any] = []


def check_recipe(recipe: dict[str, Any], where: str) -> None:
    """Refuse a recipe that lacks what is read of it.

    where   the file it came from, for the message
    Raises  BadMedia
    """
    try:
        _Recipe.model_validate(recipe)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        what = "is missing" if first["type"] == "missing" else "is not of its kind"
        raise BadMedia(f"{where} carries a damaged Vidgen recipe: {name} {what}.") from None
