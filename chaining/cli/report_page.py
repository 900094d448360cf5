"""The drift report of a chain that was just made."""

from pathlib import Path
from typing import TYPE_CHECKING

from vidgen.errors import BadRequest
from vidgen.media.disk import check_folder, check_target

if TYPE_CHECKING:
    from chaining.chain import Result


def check_report(path: Path) -> None:
    """Refuse now a report that could not be written when all clips are made.

    Raises  BadRequest, DoesNotFit, Unsupported
    """
    from chaining.drift_report.style import require_matplotlib

    if path.suffix.lower() not in (".html", ".htm"):
        raise BadRequest(f"{path.name} must end in .html.", field="report")
    require_matplotlib()
    check_target(path)
    check_folder(path.absolute().parent)


def write_report(path: Path, result: "Result") -> None:
    """Write the page; there must be a drift to tell."""
    from chaining.drift.features import ClipFeatures
    from chaining.drift_report import Measured, StillTaker, write_html
    from chaining.takes import FEATURES

    assert result.drift is not None
    taker = StillTaker()
    for take in result.takes:
        for _ in taker.watch(take.shown(take.plan.overlap), take.ends - take.plan.overlap):
            pass
    features = [ClipFeatures.load(take.folder / FEATURES) for take in result.takes]
    name = result.video.name if result.video is not None else "chain"
    write_html(path, Measured(name, result.drift, features, taker.stills))
