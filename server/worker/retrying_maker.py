"""RetryingMaker: an engine's clips for a chain, of which one can be made in another way."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from chaining.capabilities import Capability
from chaining.engine_maker import EngineMaker, first_plan
from chaining.lengths import Lengths
from chaining.maker import Ask, Float, Made
from chaining.story import Story
from server.worker.attempts import attempt_fields
from server.worker.session import Attempt
from vidgen.events import Callback, CancelToken

if TYPE_CHECKING:
    from server.worker.engine_renderer import EngineRenderer


class RetryingMaker:
    """A ClipMaker that is what its first maker is, and makes clips as `attempt` says.

    The weights are loaded when the first clip is made.
    """

    def __init__(self, renderer: "EngineRenderer", story: Story) -> None:
        """Decide what is the same for all clips.

        Raises  BadRequest, Unsupported, NotFound, DoesNotFit
        """
        self.attempt = Attempt()
        self.first_plan = first_plan(story, renderer.profile)
        self.first_plan.check_fits()
        self._renderer = renderer
        self._story = story
        self._plain = EngineMaker(story, renderer.profile, renderer.engine(self.first_plan))

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What the model's family takes."""
        return self._plain.capabilities

    @property
    def lengths(self) -> Lengths:
        """Legal clip lengths."""
        return self._plain.lengths

    @property
    def fps(self) -> Fraction:
        """Frames per second."""
        return self._plain.fps

    @property
    def size(self) -> tuple[int, int]:
        """Width and height that are generated."""
        return self._plain.size

    @property
    def export_size(self) -> tuple[int, int]:
        """Width and height that are written."""
        return self._plain.export_size

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same when the chain is taken up again."""
        return self._plain.identity

    def picture(self, path: str) -> Float:
        """Read a picture and fit it."""
        return self._plain.picture(path)

    def make(self, ask: Ask, on: Callback | None = None, cancel: CancelToken | None = None) -> Made:
        """Make one clip as the attempt says."""
        return self._maker().make(ask, on, cancel)

    def _maker(self) -> EngineMaker:
        if not (self.attempt.dense or self.attempt.lean):
            return self._plain
        offload, device = self.first_plan.offload, self._renderer.profile
        fields = attempt_fields(self._story.request, self.attempt, offload, device)
        story = self._story.model_copy(update={"request": fields})
        engine = self._renderer.engine(first_plan(story, device))
        return EngineMaker(story, device, engine)
