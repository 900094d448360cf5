"""Tables in docs/ that are made from results: what they show of a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import results


def mean(value: float, half: float = 0.1) -> dict[str, Any]:
    return {"mean": value, "half": half, "n": 8}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


def write(folder: Path, name: str, **content: Any) -> None:
    head = {"date": "2026-01-02", "machine": "a box", "commit": "abc", "command": "python -m b"}
    (folder / f"{name}.json").write_text(json.dumps({**head, **content}))


def test_the_newest_file_of_exactly_this_name_is_shown(folder: Path) -> None:
    write(folder, "2026-01-02-drift", which="new")
    write(folder, "2025-12-31-drift", which="old")
    write(folder, "2026-03-01-sparse-drift", which="another")
    assert results.newest("drift")["which"] == "new"
    with pytest.raises(FileNotFoundError, match="called chains"):
        results.newest("chains")


def test_a_way_of_chaining_shows_rates_intervals_and_verdicts(folder: Path) -> None:
    rates = {"gain": mean(-0.0123, 0.0011), "chroma": mean(0), "hue": mean(0.5),
             "cast": mean(0.0004, 0.0001), "blur": mean(0)}  # fmt: skip
    base = {"against": None, "differs": "what people do", "rates": rates,
            "last clip read": {"shape": 0.625},
            "verdicts": ["fail", "pass", "fail"], "fails at clip": [9, None, 4],
            "verdicts by group": [{"tone": "fail", "seams": "warn"}, {"tone": "pass"},
                                  {"tone": "fail", "seams": "fail"}]}  # fmt: skip
    other = {**base, "against": "today", "verdicts": ["pass"] * 3, "fails at clip": [None] * 3,
             "verdicts by group": [{"tone": "pass"}] * 3,
             "size of rates against": {**rates, "gain": mean(-0.01, 0.002)}}  # fmt: skip
    write(folder, "2026-01-02-drift", arms={"today": base, "ours": other})
    lines = results.drift_table("drift").splitlines()
    assert lines[0] == "2026-01-02, a box, commit abc: `python -m b`"
    today, ours = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith(("| today", "| ours"))
    )
    assert today[3] == "-1.23 &plusmn; 0.11"
    assert today[6] == "+0.40 &plusmn; 0.10"
    assert today[-3:] == ["62", "2 fail (seams 1, tone 2), 1 pass", "4, 9"]
    assert ours[-2:] == ["3 pass", "never"]
    steps = results.drift_steps_table("drift")
    assert "| ours | today | -1.00 &plusmn; 0.20 |" in steps
    assert "| today |  |" not in steps


def test_arms_of_sparse_attention_show_what_they_cost_and_save(folder: Path) -> None:
    work = {"attention executed": 0.486, "flops saved": 0.287}
    base = {"velocity error": mean(0.08, 0.017), "velocity error against base": None,
            "mass kept": mean(0.475), **work}  # fmt: skip
    window = {**base, "velocity error against base": mean(0.0756, 0.011)}
    write(folder, "2026-01-02-v", arms={"topk 0.125": base, "window": window})
    assert results.velocity_table("v").splitlines()[4:] == [
        "| topk 0.125 | 8.00 &plusmn; 1.70 | the base | 48 | 49 | 29 |",
        "| window | 8.00 &plusmn; 1.70 | +7.56 &plusmn; 1.10 | 48 | 49 | 29 |",
    ]
    read = {"read": {"colour": 1.0, "shape": 0.5, "motion": 0.75, "background": 1.0, "size": 0.1}}
    made = {"psnr": mean(34.7, 1.0), "psnr against base": None, "ssim": mean(0.98), **work, **read}
    write(folder, "2026-01-02-r", arms={"dense": read, "topk 0.125": made})
    assert results.rendered_table("r").splitlines()[4:] == [
        "| dense |  |  |  | 100 | 0 | 100 | 50 | 75 | 100 |",
        "| topk 0.125 | 34.70 &plusmn; 1.00 | the base | 0.980 | 49 | 29 | 100 | 50 | 75 | 100 |",
    ]
