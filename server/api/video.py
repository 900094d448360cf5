"""Video: what clients see of a job; OpenAI's fields as they are, and ours beside them."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class VideoError(BaseModel):
    """Why a job failed."""

    code: str
    message: str
    type: str | None = None
    param: str | None = None
    retryable: bool = False


class Percentiles(BaseModel):
    """A time that is expected: half of all cases come earlier than p50."""

    p50: float
    p90: float


class Lineage(BaseModel):
    """Where a job comes from."""

    parent: str | None = None
    kind: str | None = Field(None, description="remix, edit, extension, fork, retry, storyboard")


class Variant(BaseModel):
    """One file of a result."""

    bytes: int
    sha256: str | None = None
    media_type: str
    url: str


class Video(BaseModel):
    """A job that makes a video."""

    id: str
    object: Literal["video"] = "video"
    created_at: int
    completed_at: int | None = None
    expires_at: int | None = None
    model: str
    status: Literal["queued", "in_progress", "completed", "failed"]
    progress: int = Field(ge=0, le=100)
    seconds: str = Field(description="Length of the whole video.")
    size: str = Field(description="WIDTHxHEIGHT of the file.")
    prompt: str | None = None
    remixed_from_video_id: str | None = None
    error: VideoError | None = None
    # Ours
    kind: Literal["clip", "chain"]
    state: str
    hold_reason: str | None = None
    phase: str | None = None
    step: int | None = None
    steps: int | None = None
    clips: int
    clips_completed: int
    run: int
    queue_position: int | None = None
    eta_start_s: Percentiles | None = None
    eta_s: Percentiles | None = None
    width: int
    height: int
    num_frames: int
    fps: str
    seed: int
    adjustments: list[dict[str, Any]]
    warnings: list[str]
    estimate: dict[str, Any]
    clip_plan: list[dict[str, Any]]
    request: dict[str, Any] | None = Field(
        None, description="What was asked, by canonical names: a form can be filled from it."
    )
    options: dict[str, Any]
    lineage: Lineage
    variants: dict[str, Variant]
    usage: dict[str, Any]
    report: dict[str, Any] | None = None
    priority: int
    pool: str
    title: str | None = None
    tags: list[str]
    starred: bool
    trashed_at: int | None = None
    zdr: bool
    started_at: int | None = None
    updated_at: int


class VideoList(BaseModel):
    """A page of videos."""

    object: Literal["list"] = "list"
    data: list[Video]
    first_id: str | None = None
    last_id: str | None = None
    has_more: bool


class VideoDeleted(BaseModel):
    """What DELETE answers when nothing is left."""

    id: str
    deleted: bool = True
    object: Literal["video.deleted"] = "video.deleted"


class Error(BaseModel):
    """The error object."""

    code: str
    message: str
    type: str
    param: str | None = None
    retryable: bool = False


class ErrorBody(BaseModel):
    """What every refusal answers."""

    error: Error
