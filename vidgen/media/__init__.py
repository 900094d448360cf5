"""Images and videos in and out: reading, fitting, writing, finishing; knows no models.

Attributes load on first use, so that importing this package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vidgen.media.finish import crossfade, finish_video
    from vidgen.media.fit import describe_fit, fit_image
    from vidgen.media.grid import comparison_grid
    from vidgen.media.image import ImageInput, read_image
    from vidgen.media.names import safe_name
    from vidgen.media.profiles import PROFILES, Profile
    from vidgen.media.recipe import read_recipe
    from vidgen.media.sheet import contact_sheet, save_image
    from vidgen.media.video_read import (
        VideoInfo,
        probe_video,
        read_frame,
        read_still,
        read_video,
    )
    from vidgen.media.video_write import VideoWriter

_HOMES = {
    "ImageInput": "image",
    "PROFILES": "profiles",
    "Profile": "profiles",
    "VideoInfo": "video_read",
    "VideoWriter": "video_write",
    "comparison_grid": "grid",
    "contact_sheet": "sheet",
    "crossfade": "finish",
    "describe_fit": "fit",
    "finish_video": "finish",
    "fit_image": "fit",
    "probe_video": "video_read",
    "read_frame": "video_read",
    "read_image": "image",
    "read_recipe": "recipe",
    "read_still": "video_read",
    "read_video": "video_read",
    "safe_name": "names",
    "save_image": "sheet",
}

__all__ = [
    "PROFILES",
    "ImageInput",
    "Profile",
    "VideoInfo",
    "VideoWriter",
    "comparison_grid",
    "contact_sheet",
    "crossfade",
    "describe_fit",
    "finish_video",
    "fit_image",
    "probe_video",
    "read_frame",
    "read_image",
    "read_recipe",
    "read_still",
    "read_video",
    "safe_name",
    "save_image",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
