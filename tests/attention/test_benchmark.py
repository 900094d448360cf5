"""The benchmark runs from end to end on tiny shapes, and its fit is right."""

import json
from pathlib import Path

import pytest

from benchmarks.attention import cases, exponent, main


def test_the_quick_mode_measures_and_writes_every_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "attention.json"
    monkeypatch.setattr("sys.argv", ["attention", "--quick", "--pairs", "2", "--out", str(out)])
    main()
    found = json.loads(out.read_text("utf-8"))
    assert {"date", "machine", "commit", "command", "threads"} <= set(found)
    for name in ("speed", "blocks", "toy"):
        for arm in found[name][0]["arms"].values():
            low, high = arm["range"]
            assert 0 < low <= arm["speed_up"] <= high
            assert set(arm["seconds"]) == {"order", "router", "proxies", "executor"}
    assert found["scaling"]["tokens"] == [256, 512]
    printed = capsys.readouterr()
    assert "| 256 | float32 | 32x16 | 0.125 | mean |" in printed.out
    assert "pair 2 of 2" in printed.err


def test_what_is_measured_by_default() -> None:
    speed = cases(quick=False)["speed"]
    assert {case.grid.tokens for case in speed} == {4096, 8192, 32_760}
    assert {case.density for case in speed} == {0.0625, 0.125, 0.25}


def test_the_exponent_of_a_power_is_found() -> None:
    lengths = [1000, 2000, 4000, 8000]
    assert exponent(lengths, [3e-9 * n**1.5 for n in lengths]) == pytest.approx(1.5)
