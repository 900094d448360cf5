"""The end-to-end benchmark on a tiny clip: its arms, its ratios and their ceiling."""

from types import MappingProxyType

import numpy as np
import pytest
import torch

from benchmarks import end_to_end
from benchmarks.end_to_end import Arms, Reading, ceilings, measure
from benchmarks.sparse_arms import planned


def test_dense_gives_diffusers_own_bits_and_everything_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(end_to_end, "SIZE", (96, 96))
    torch.set_num_threads(1)
    found = measure(Arms(5, 2), 1)
    assert found["largest difference to diffusers"]["dense"] == 0
    assert found["largest difference to diffusers"]["sparse"] > 0
    seconds = found["cpu seconds"]
    assert list(seconds) == ["diffusers", "dense", "sparse"]
    for part in seconds.values():
        assert len(part["whole"]) == 1
        assert part["whole"][0] > part["denoise"][0] > 0
    end_to_end._say(found)
    said = capsys.readouterr()
    assert "run 6/6, sparse" in said.err or "run 6/6, diffusers" in said.err
    assert "dense over sparse, denoise: median" in said.out
    assert "by FLOPs" in said.out


def test_ratios_are_paired_and_the_warm_up_does_not_count() -> None:
    dense, sparse = planned((33, 192, 192)), planned((33, 192, 192), attention="topk")

    class Fixed:
        names = ("diffusers", "dense", "sparse")
        plans = MappingProxyType({"dense": dense, "sparse": sparse})
        calls = 0

        def run(self, name: str) -> Reading:
            self.calls += 1
            scale = 1000.0 if self.calls <= 3 else float(self.calls % 2 + 1)
            cost = {"diffusers": 6.0, "dense": 4.0, "sparse": 2.0}[name]
            return Reading(cost * scale, cost / 2, np.zeros((1, 2, 2, 3), np.float32))

    found = measure(Fixed(), 3)  # type: ignore[arg-type]
    assert found["dense over sparse"]["denoise"]["mean"] == 2
    assert found["diffusers over"]["dense"]["denoise"]["range"] == [1.5, 1.5]
    assert found["pairs"] == len(found["cpu seconds"]["dense"]["whole"]) == 3
    assert max(found["cpu seconds"]["sparse"]["whole"]) < 1000


def test_the_ceiling_is_the_ratio_of_the_plans_work() -> None:
    dense, sparse = planned((81, 192, 192)), planned((81, 192, 192), attention="topk")
    found = ceilings(dense, sparse)
    saved = dense.estimate.flops["attention"] - sparse.estimate.flops["attention"]
    for part in ("whole", "denoise"):
        assert found[part]["dense"] - found[part]["sparse"] == pytest.approx(saved)
        assert found[part]["ratio"] == pytest.approx(1 / (1 - found[part]["saved"]))
    assert found["denoise"]["ratio"] > found["whole"]["ratio"] > 1
