"""The words: numbers by hand, and what is said of a chain that darkens."""

import math
from dataclasses import replace

import pytest

from chaining.drift.forecast import Forecast
from chaining.drift.trend import Slope
from chaining.drift_report import Measured, words
from chaining.drift_report.rows import table_rows


@pytest.mark.parametrize(
    ("signal", "value", "text"),
    [
        ("gain", math.log(0.97), "-3.00 %"),
        ("chroma", math.log(1.5), "+50.00 %"),
        ("hue", 2.0, "+2.00°"),
        ("blur", 0.09, "+0.090 px²"),
        ("cast", 0.0042, "+0.0042"),
        ("noise", -0.5, "-0.500 (1/255)²"),
    ],
)
def test_amounts_carry_their_unit(signal: str, value: float, text: str) -> None:
    assert words.amount(signal, value) == text


def test_intervals_and_limits_are_in_the_readings_unit() -> None:
    slope = Slope(-0.03, (math.log(0.96), math.log(0.98)), "", -0.03, (), 5, "t")
    assert words.interval("gain", slope) == "-4.00 to -2.00"
    assert words.limits("gain") == "± 0.5 / 1.0"
    assert words.limits("noise") == "0.1 / 0.5"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Forecast(12.3, (9.2, 17.4)), "Black after about 12 more clips (9 to 17)."),
        (Forecast(1.25, (1.0, None)), "Black after about 1.2 more clips (1.0 or more)."),
        (Forecast(0.0, (0.0, 0.0)), "Black already."),
        (Forecast(None, (None, None)), "Never black, as far as this shows."),
    ],
)
def test_forecasts_read_as_sentences(drifting: Measured, found: Forecast, text: str) -> None:
    segment = replace(drifting.drift.segments[-1], forecast={"black": found})
    assert words.forecasts(replace(drifting.drift, segments=(segment,))) == [text]


def test_short_chains_have_no_forecast(drifting: Measured) -> None:
    segment = replace(drifting.drift.segments[-1], first=4, forecast={})
    told = words.forecasts(replace(drifting.drift, segments=(segment,)))
    assert told == ["No forecast: the last scene has 2 clips and 3 are needed."]


def test_what_drifts_is_said_plainly_and_only_that(drifting: Measured, steady: Measured) -> None:
    (told,) = words.movements(drifting.drift)
    assert told.startswith("The picture gets darker by 3.0")
    assert words.movements(steady.drift) == []


def test_the_table_holds_the_groups_verdicts(drifting: Measured) -> None:
    rows = table_rows(drifting.drift)
    outcomes = {row.what: row.outcome for row in rows}
    assert outcomes["brightness per clip"] == "fail"
    assert outcomes["blur per clip"] == "pass"
    order = ("pass", "warn", "inconclusive", "fail")
    for group, verdict in drifting.drift.verdict.by_group.items():
        found = [row.outcome for row in rows if row.group == group and row.outcome]
        assert max(found, key=order.index, default="pass") == verdict, group
