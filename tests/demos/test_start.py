"""The first minutes: an empty Create page, one of its cards, and a clip that plays."""

import time
from typing import Any

import pytest

from tests.demos.site import Site
from tests.demos.test_remote import PLAYS

pytestmark = pytest.mark.slow


def test_a_start_card_leads_to_a_clip_that_plays(
    real_site: Site, open_page: Any, record_property: Any
) -> None:
    page = open_page(real_site)
    page.wait_for_selector("vidgen-starters .vg-tile")
    began = time.monotonic()
    page.click("text=From a text")
    page.wait_for_selector("#create-said >> text=Press Generate.")
    page.click("#generate")
    page.wait_for_selector("vidgen-live [data-job] h2 >> text=a big red ball moves quickly left")
    page.wait_for_function(PLAYS)
    seconds = time.monotonic() - began
    record_property("seconds_to_first_clip", seconds)
    print(f"{seconds:.1f} s from the card to the clip that plays")
    assert page.faults == []
