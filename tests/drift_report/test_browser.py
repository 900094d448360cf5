"""The report in a real browser: it renders, and it asks nobody for anything."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest

from chaining.drift_report import Measured, write_html
from vidgen.media import read_image

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome")
     if (found := shutil.which(name))),
    None,
)  # fmt: skip
WIDTH, HEIGHT = 900, 2400
OWN = (".google.com", ".googleapis.com", ".gvt1.com")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium; install the package chromium")
def test_the_page_renders_and_asks_nobody(drifting: Measured, tmp_path: Path) -> None:
    page, picture, log = (tmp_path / name for name in ("r.html", "r.png", "net.json"))
    write_html(page, drifting)
    assert CHROMIUM is not None
    subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={WIDTH},{HEIGHT}",
            f"--log-net-log={log}", f"--screenshot={picture}", page.as_uri(),
        ],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    shown = read_image(str(picture)).pixels_hwc
    assert shown.shape == (HEIGHT, WIDTH, 3)
    top, middle = shown[: HEIGHT // 8], shown[HEIGHT // 3 : 2 * HEIGHT // 3]
    assert top.min() < 0.4 < 0.9 < top.max()  # words on paper
    assert np.ptp(middle, axis=(0, 1)).max() > 0.5  # plots
    colourful = shown.max(axis=2) - shown.min(axis=2) > 0.3
    assert colourful.mean() > 1e-3  # the verdict's colour and the lines
    assert hosts_asked(log) == set()


def hosts_asked(log: Path) -> set[str]:
    """Hosts that were asked for anything, but for those that Chromium itself calls at home.

    A page that asked one of these would be found by the test that reads its source.
    """
    events = json.loads(log.read_text("utf-8"))["events"]
    asked = {event.get("params", {}).get("url", "") for event in events}
    assert events
    hosts = {urlsplit(url).hostname or "" for url in asked}
    return {host for host in hosts if host and not host.endswith(OWN)}
