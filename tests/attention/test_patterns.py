"""Patterns: legal values, budgets, and how many blocks a density keeps. No torch is loaded."""

import subprocess
import sys
from typing import Any

import pytest

from attention import AttentionError, TopK, Window
from attention.patterns import kept_blocks


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, attention; attention.choose; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_public_name_is_there() -> None:
    import attention

    assert all(getattr(attention, name) is not None for name in attention.__all__)
    with pytest.raises(AttributeError, match="nothing_here"):
        _ = attention.nothing_here


@pytest.mark.parametrize(
    ("density", "blocks", "kept"),
    [(0.125, 512, 64), (0.125, 4, 1), (0.125, 12, 2), (0.125, 11, 1), (1.0, 9, 9), (0.001, 9, 1)],
)
def test_kept_blocks(density: float, blocks: int, kept: int) -> None:
    assert kept_blocks(density, blocks) == kept


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"density": 0.0}, "density=0.0 is not above 0 and up to 1"),
        ({"density": 1.01}, "density=1.01 is not above 0 and up to 1"),
        ({"top_p": 0.0}, "top_p=0.0 is not above 0 and up to 1"),
        ({"neighbours": -1}, "neighbours=-1"),
        ({"sub_block": 0}, "sub_block=0"),
        ({"budgets": ((0.5, 2.0),)}, "density=2.0"),
    ],
)
def test_values_out_of_range_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(AttentionError, match=message):
        TopK(**fields)


def test_a_window_needs_a_density_and_a_distance() -> None:
    for fields in ({"density": 2.0}, {"frame_cells": 0.0}):
        with pytest.raises(AttentionError):
            Window(**fields)


def test_budgets_are_looked_up_by_layer_and_head() -> None:
    pattern = TopK(budgets=((0.1, 0.2), (0.3, 0.4)))
    assert pattern.layer_densities(1, 2) == (0.3, 0.4)
    assert TopK(density=0.5).layer_densities(7, 3) == (0.5, 0.5, 0.5)
    for layer, heads in ((2, 2), (0, 3)):
        with pytest.raises(AttentionError, match="use this model's own budgets"):
            pattern.layer_densities(layer, heads)
