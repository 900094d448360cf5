"""Budgets: the mean holds, heads that gain more get more, files that are wrong are refused."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import Grid
from vidgen.budgets import (
    DENSITIES,
    LEAST,
    MOST,
    Recall,
    divide,
    load_budgets,
    recall_for,
    save_budgets,
)
from vidgen.errors import BadRequest, NotFound


def recall(*rows: list[tuple[float, ...]], grid: str = "9x12x12") -> Recall:
    return Recall("toyworld", "w", grid, 16, 16, DENSITIES, tuple(tuple(row) for row in rows))


SHARP = tuple(min(1.0, 0.9 + 0.1 * density) for density in DENSITIES)  # one block holds it all
FLAT = DENSITIES  # every block holds as much


def mean(densities: tuple[tuple[float, ...], ...]) -> float:
    heads = [density for row in densities for density in row]
    return sum(heads) / len(heads)


def test_a_flat_head_gets_what_a_sharp_one_does_not_need() -> None:
    ((sharp, flat),) = divide(recall([SHARP, FLAT]), 0.125)
    assert sharp == pytest.approx(LEAST * 0.125)
    assert flat == pytest.approx(0.25 - LEAST * 0.125)


def test_heads_alike_get_the_same() -> None:
    curve = tuple(density**0.5 for density in DENSITIES)
    divided = divide(recall([curve, curve], [curve, curve]), 0.125)
    assert mean(divided) == pytest.approx(0.125)
    assert max(max(row) for row in divided) <= MOST * 0.125


@given(
    st.lists(
        st.lists(st.floats(0.0, 1.0), min_size=len(DENSITIES), max_size=len(DENSITIES)),
        min_size=1,
        max_size=5,
    ),
    st.floats(0.01, 1.0),
)
def test_the_mean_is_as_asked_and_bounds_hold(curves: list[list[float]], density: float) -> None:
    made = recall([tuple(sorted(curve)) for curve in curves])
    divided = divide(made, density)
    assert mean(divided) == pytest.approx(density, rel=1e-6)
    for value in divided[0]:
        assert min(1.0, LEAST * density) - 1e-9 <= value <= min(1.0, MOST * density) + 1e-9


def test_layers_left_out_have_no_part_in_the_mean() -> None:
    divided = divide(recall([], [SHARP, FLAT]), 0.125)
    assert divided[0] == ()
    assert mean(divided[1:]) == pytest.approx(0.125)


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = [recall([SHARP, FLAT]), recall([FLAT, FLAT], grid="21x12x12")]
    save_budgets(tmp_path / "b.json", entries)
    assert load_budgets(tmp_path / "b.json") == entries
    assert recall_for(entries, "toyworld", Grid(21, 12, 12), 16, 16) == entries[1]
    assert recall_for(entries, "toyworld", Grid(21, 12, 12), 128, 64) is None
    assert recall_for(entries, "other", Grid(21, 12, 12), 16, 16) is None


@pytest.mark.parametrize(
    "change",
    [
        {"vidgen_budgets": 2},
        {"grids": [{}]},
        {"grids": 3},
        {"grids": [{"kept": [[[0.1]]]}]},
        {"grids": [{"kept": [[[2.0] * len(DENSITIES)]]}]},
        {"grids": [{"densities": list(reversed(DENSITIES))}]},
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "b.json"
    save_budgets(path, [recall([SHARP])])
    content = json.loads(path.read_text())
    grids = change.get("grids")
    if isinstance(grids, list) and grids[0]:
        change = {"grids": [{**content["grids"][0], **grids[0]}]}
    path.write_text(json.dumps({**content, **change}))
    with pytest.raises(BadRequest, match="is not a budgets file"):
        load_budgets(path)
    with pytest.raises(NotFound, match="does not exist"):
        load_budgets(tmp_path / "none.json")
