"""Names of files: of a clip from a template, and of what lies beside it."""

import hashlib
import json
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from vidgen.errors import BadRequest
from vidgen.media import PROFILES, safe_name
from vidgen.media.disk import check_name
from vidgen.plan import Plan

DEFAULT_TEMPLATE = "{date}_{id}_{seed}"
PLACEHOLDERS = ("date", "time", "id", "seed", "index", "model", "prompt", "width", "height")


def request_id(request: Mapping[str, Any]) -> str:
    """Return a short name for a request's content, equal for equal requests."""
    text = json.dumps(request, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def check_template(template: str) -> None:
    """Refuse a template that cannot be filled in with any clip.

    Raises  BadRequest
    """
    numbers = ("seed", "index", "width", "height")
    _filled(template, {name: 1 if name in numbers else "-" for name in PLACEHOLDERS})


def named_after(template: str, plan: Plan, index: int) -> str:
    """Return the file name (without suffix) of clip `index` of a plan."""
    return name_for(
        template,
        plan.request.given(),
        seed=plan.seeds[index],
        index=index,
        model=plan.model.name,
        size=(plan.size.export_width, plan.size.export_height),
    )


def name_for(
    template: str,
    given: Mapping[str, Any],
    *,
    seed: int,
    index: int,
    model: str,
    size: tuple[int, int],
) -> str:
    """Return the file name (without suffix) of a clip.

    given  the request's fields
    index  of the clip among those of the request, from 0
    size   width and height of the file
    """
    values = {
        "date": time.strftime("%Y%m%d"),
        "time": time.strftime("%H%M%S"),
        "id": request_id({**given, "n": 1, "seed": seed})[:8],
        "seed": seed,
        "index": index + 1,
        "model": model,
        "prompt": given["prompt"],
        "width": size[0],
        "height": size[1],
    }
    return safe_name(_filled(template, values))


def _filled(template: str, values: Mapping[str, Any]) -> str:
    try:
        for text, name, layout, _ in Formatter().parse(template):
            if "/" in text:
                raise ValueError("it names a file, not a folder")
            if name is not None and name not in values:
                raise ValueError(f"{name!r} is unknown")
            if re.search(r"[{]|\d{4}", layout or ""):
                raise ValueError(f"{layout!r} is no short layout")
        return template.format_map(values)
    except ValueError as error:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        raise BadRequest(
            f"name_template={template!r} cannot be filled in ({error}); it takes {known}.",
            field="name_template",
        ) from None


def clip_paths(out: Path | None, template: str, plan: Plan, *, folder: Path) -> list[Path]:
    """Return the file of every clip of a plan.

    out     the name that was asked for; several clips are numbered: clip-1.mp4, clip-2.mp4
    folder  where files go whose name comes from the template; no existing file is replaced
    """
    suffix = PROFILES[plan.request.format].suffix
    count = len(plan.seeds)
    if out is not None:
        check_name(out)
    if out is not None and count == 1:
        return [out]
    if out is not None:
        return [out.with_name(f"{out.stem}-{i + 1}{out.suffix}") for i in range(count)]
    paths: list[Path] = []
    for index in range(count):
        stem = named_after(template, plan, index)
        path, number = folder / f"{stem}{suffix}", 1
        while path.exists() or latents_beside(path).exists() or path in paths:
            number += 1
            path = folder / f"{stem}_{number}{suffix}"
        paths.append(path)
    return paths


def latents_beside(path: Path) -> Path:
    """Return where a clip's latents lie until the clip is written."""
    return path.with_name(path.name + LATENTS_SUFFIX)


def refuse_kept_latents(paths: Iterable[Path]) -> None:
    """Raise BadRequest if latents lie where a run would put its own: they may be all that is left.

    paths  of the clips
    """
    for path in map(latents_beside, paths):
        if path.exists():
            raise BadRequest(
                f"{path} holds latents of an earlier run; finish its clip with "
                f"`vidgen decode {path}`, give another --out, or delete the file.",
                field="out",
            )


LATENTS_SUFFIX = ".latents.safetensors"


def format_of(out: Path) -> str | None:
    """Return the format that a file's suffix means, None if none or several do."""
    return {row.suffix: name for name, row in reversed(PROFILES.items()) if row.suffix}.get(
        out.suffix.lower()
    )
