"""Story: the shots of one long video, declared once.

Files are read in `story_files`; what a story becomes in clips is decided in `schedule`.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from chaining.controls import Controls, Handover, StrategyName
from chaining.declared import Declared
from vidgen.errors import BadRequest
from vidgen.request import VideoRequest, canonical_names
from vidgen.request_names import explain
from vidgen.request_values import Duration, Words

Transition = Literal["continue", "cut", "bridge"]

MAX_SECONDS = 3600
MAX_SHOTS = 500
# Fields that a story sets for every clip itself, and how it says them.
_OURS = {
    "prompt": "write it in each shot",
    "seconds": "write it in each shot; num_frames here is the length of one clip",
    "image": "write it in the shot that begins with it",
    "last_image": "write end_image, or last_image in a shot",
    "seed": "write it beside the shots",
    "n": "a story is one video",
    "video": "clips continue each other",
    "mask": "clips continue each other",
    "strength": "clips continue each other",
    "prefix_frames": "write handover.overlap",
}


class Shot(Declared):
    """One thing that happens.

    transition   how it follows the shot before: continue, cut, or bridge (a clip is made between
                 the last frame of one and the first of the other); the first shot has none
    """

    prompt: Words = Field(description="What the shot shows.", min_length=1, max_length=8192)
    seconds: Duration = Field(description="Its length.", gt=0, le=600)
    seed: int | None = Field(
        default=None,
        description="Seed of its first clip; its others' follow from it.",
        ge=0,
        le=2**63 - 1,
    )
    image: str | None = Field(default=None, description="Picture that it begins with.")
    last_image: str | None = Field(default=None, description="Picture that it ends on.")
    transition: Transition | None = Field(
        default=None, description="How it follows the shot before; continue when omitted."
    )
    strategy: StrategyName | None = Field(
        default=None, description="How its clips hand over; the story's way when omitted."
    )


class Story(Declared):
    """A long video: shots in order, and what holds for all of them.

    request   fields of a VideoRequest for every clip (size, fps, sampling, attention, ..);
              num_frames is the longest clip
    """

    shots: tuple[Shot, ...] = Field(description="What happens, in order.")
    request: dict[str, Any] = Field(default_factory=dict, description="Fields for every clip.")
    seed: int | None = Field(
        default=None, description="Seed; drawn when omitted.", ge=0, le=2**63 - 1
    )
    strategy: StrategyName = Field(default="last_frame", description="How clips hand over.")
    end_image: str | None = Field(default=None, description="Picture that the last clip ends on.")
    handover: Handover = Field(default=Handover(), description="Settings of the hand-over.")
    controls: Controls = Field(default=Controls(), description="What holds drift down.")

    @field_validator("request")
    @classmethod
    def _clean_request(cls, value: dict[str, Any]) -> dict[str, Any]:
        fields = canonical_names(value)
        for name, instead in _OURS.items():
            if name in fields:
                raise ValueError(f"{name} is not for every clip; {instead}")
        try:
            made = VideoRequest.model_validate({**fields, "prompt": "a shot"})
        except ValidationError as error:
            raise ValueError(explain(error).message.rstrip(".")) from None
        return {name: found for name, found in made.given().items() if name != "prompt"}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.shots:
            raise ValueError("the story has no shots; give at least one")
        if len(self.shots) > MAX_SHOTS:
            raise ValueError(f"the story has {len(self.shots)} shots, at most {MAX_SHOTS} fit")
        if self.seconds > MAX_SECONDS:
            raise ValueError(
                f"the story lasts {self.seconds:g} s, at most {MAX_SECONDS} s fit; make it in parts"
            )
        if self.shots[0].transition is not None:
            raise ValueError("the first shot follows nothing; leave its transition out")
        if self.end_image is not None and self.shots[-1].last_image is not None:
            raise ValueError(
                "end_image and the last shot's last_image both end the video; give one"
            )
        return self

    @property
    def seconds(self) -> float:
        """Sum of the shots' lengths."""
        return sum(shot.seconds for shot in self.shots)

    def transition(self, shot: int) -> Transition:
        """Return how a shot begins; the first one, and one with its own picture, with a cut."""
        asked = self.shots[shot].transition
        if shot == 0:
            return "cut"
        if asked is not None:
            return asked
        return "continue" if self.shots[shot].image is None else "cut"

    def strategy_of(self, shot: int) -> StrategyName:
        """Return how the clips of a shot hand over."""
        return self.shots[shot].strategy or self.strategy


def parse_story(data: Mapping[str, Any]) -> Story:
    """Make a story of untrusted data.

    Raises  BadRequest, one sentence that names each field at fault, its value and its bound
    """
    if not isinstance(data, Mapping):
        raise BadRequest(
            f"A story is a mapping with the key shots, not a {type(data).__name__}.", field="shots"
        )
    try:
        return Story.model_validate(dict(data))
    except ValidationError as error:
        raise explain(error) from None
