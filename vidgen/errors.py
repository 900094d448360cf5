"""The errors a user can meet: one sentence each, with a stable code and a process exit code.

It holds no other logic; whoever raises one words the sentence: what is wrong, the value, the bound,
the way out.

    VidgenError                 exit 1   something failed
    |-- BadRequest              exit 2   the request cannot be met as written
    |   |-- BadMedia            exit 2   an image, a video or a recipe cannot be read
    |   `-- Unsupported         exit 2   asked for something this model or machine does not do
    |-- DoesNotFit              exit 3   memory or disk is too small
    |-- NotFound                exit 4   a model, a LoRA or a file is missing
    |-- BadOutput               exit 5   the model produced something no one wants (NaN, collapse)
    `-- Cancelled               exit 130 stopped on request; the work done so far is kept
"""

from typing import ClassVar


class VidgenError(Exception):
    """Base of every error that Vidgen raises on purpose."""

    exit_code: ClassVar[int] = 1
    default_code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        """Make an error.

        message  one sentence for a person
        code     stable word for a program, e.g. "nan_latents"; the class's own word when omitted
        field    the request field at fault, e.g. "num_frames"
        """
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.field = field

    def as_dict(self) -> dict[str, str]:
        """Return the error as JSON-ready data (code, message and, where known, param)."""
        data = {"code": self.code, "message": self.message}
        if self.field is not None:
            data["param"] = self.field
        return data


class BadRequest(VidgenError, ValueError):
    """The request cannot be met as written."""

    exit_code = 2
    default_code = "bad_request"


class BadMedia(BadRequest):
    """An image, a video or a recipe cannot be read."""

    default_code = "bad_media"


class Unsupported(BadRequest):
    """This model or this machine does not do what was asked."""

    default_code = "unsupported"


class DoesNotFit(VidgenError):
    """The device's memory or the disk is too small for the request."""

    exit_code = 3
    default_code = "does_not_fit"


class NotFound(VidgenError):
    """A model, a LoRA or a file is missing."""

    exit_code = 4
    default_code = "not_found"


class BadOutput(VidgenError):
    """The model produced something that no one wants, such as non-finite latents."""

    exit_code = 5
    default_code = "bad_output"


class Cancelled(VidgenError):
    """The run was stopped on request; what was finished is kept."""

    exit_code = 130
    default_code = "cancelled"
