"""The lengths that a model's clips can have, and how a stretch of video is divided among clips."""

from dataclasses import dataclass

from vidgen.errors import BadRequest
from vidgen.families import Family


@dataclass(frozen=True, slots=True)
class Lengths:
    """Legal clip lengths: step * k + 1 frames, up to `most`.

    longest  frames that the model was trained on, for one clip without a chain
    """

    step: int
    most: int
    longest: int

    def __post_init__(self) -> None:
        if self.step < 1 or self.most < 1 + self.step or (self.most - 1) % self.step:
            raise BadRequest(
                f"num_frames={self.most} of a chain's clips is not {self.step}n+1 above 1; use "
                f"{max(1, round((self.most - 1) / self.step)) * self.step + 1}.",
                field="num_frames",
            )

    @classmethod
    def of(cls, family: Family, most: int) -> "Lengths":
        """Return the lengths of a family, with clips of at most so many frames."""
        return cls(family.vae_temporal, most, max(most, family.recipe.max_frames_seen))

    def up(self, frames: int) -> int:
        """Return the shortest legal length of at least so many frames."""
        return -(-max(frames - 1, 0) // self.step) * self.step + 1


def divide(groups: int, first_room: int, room: int) -> list[int]:
    """Divide groups of frames evenly among as few clips as can hold them.

    first_room  groups that the first clip can show; room: that each later one can, 1 to first_room
    Returns     one count a clip, none 0; what does not divide goes to the later ones
    """
    count = 1 if groups <= first_room else 1 + -(-(groups - first_room) // room)
    found: list[int] = []
    left = groups
    for waiting in range(count, 1, -1):
        found.append(min(room, -(-left // waiting)))
        left -= found[-1]
    return [left, *found]
