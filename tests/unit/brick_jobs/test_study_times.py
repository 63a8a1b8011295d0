"""What a corpus' times on a device say, by hand."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis import bricks_devices
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.study_times import Member, of_setting
from inferbench_tasks.bricks.results import WHOLE
from tests.unit.bricks.builders import SETTING, result

MEMBERS = [Member("one", 3, None), Member("two", 1, "key"), Member("three", 1, None), Member("four", 1, None)]
MS = 1e6


def cut(at: int, granularity: str, *parts: str) -> CutModel:
    """Its bricks take one from the other, but the second from the beginning, too."""
    needs = ((), (), *((0, 1) for _ in parts[2:]))[: len(parts)]
    return CutModel(
        at=at, name=MEMBERS[at].name, copies=MEMBERS[at].copies, task=None, digest=str(at), batch_size=1,
        granularity=granularity, layers=len(parts), operators=(*parts, str(at)), whole=f"{WHOLE}{at}", parts=parts,
        needs=needs,
    )  # fmt: skip


#: Of the first both are known, of the second its coarse bricks alone, the third was never timed as a whole.
CUTS = [
    cut(0, "1", "a", "b", "a"),
    cut(1, "1", "a", "x"),
    cut(2, "1", "a"),
    cut(0, "2", "ab"),
    cut(1, "2", "ab", "c"),
]
TIMES = {"a": 1.0, "b": 3.0, "ab": 5.0, "c": 4.0, f"{WHOLE}0": 10.0, f"{WHOLE}1": 12.0}
KNOWN = {name: result(name, ms * MS, ms * MS, ms * MS) for name, ms in TIMES.items()}


def test_each_model_s_sums_and_the_figures_of_all() -> None:
    """The first: 1 + 3 + 1 ms of 10 in layers, of which the first and the second run side by side: 4 ms; 5 ms in pairs.
    The second, of which a layer has no time, has its own 12 ms, and 9 in pairs. By layers the first alone is judged: 3
    x 10 ms over its bricks' 1 + 3; in pairs 3 x 10 + 12 ms over 5 + 4."""
    found = of_setting(SETTING, MEMBERS, CUTS, KNOWN)
    one, two = found["models"]
    assert (one["model"], one["end_to_end_ms"], two["end_to_end_ms"]) == ("one", 10, 12)
    fine, coarse = one["constructed"]
    assert [fine[f"{kind}_ratio"] for kind in ("warm", "parallel", "constructed")] == pytest.approx(
        [0.5, 0.4, 0.5]
    )
    assert (coarse["granularity"], coarse["warm_ratio"]) == ("2", pytest.approx(0.5))
    assert [of["granularity"] for of in two["constructed"]] == ["2"] and fine["calibrated_ratio"] is None
    assert found["without"] == ["three", "four"]
    first, second = found["granularities"]
    assert (first["granularity"], first["architectures"]) == ("1", 1)
    assert (first["geometric_mean"], first["speedup_ratio"]) == pytest.approx((0.5, 7.5))
    assert (second["architectures"], second["unique_bricks_ms"]) == (2, pytest.approx(9))
    assert second["geometric_mean"] == pytest.approx((0.5 * 0.75) ** 0.5)
    assert second["speedup_ratio"] == pytest.approx(42 / 9) and second["calibrated_geometric_mean"] is None


def test_the_pictures_have_a_line_for_each_device_and_what_there_is_of_each() -> None:
    """Figures 11 and 12 of both, in the order of the granularities; 9, 3 and 10 of the one that has models."""
    one = of_setting(SETTING, MEMBERS, CUTS, KNOWN)
    none = {**one, "device": "other", "models": [], "granularities": []}
    overview, (drawn, empty) = bricks_devices.charts([one, none])
    assert list(overview) == ["device_means", "device_speedups"] and empty == {}
    [line] = overview["device_speedups"]["data"]
    assert line["x"] == ["1", "2"] and line["y"] == pytest.approx([7.5, 42 / 9])
    assert line["name"] == "p, onnxruntime 1, threads 1"
    assert list(drawn) == ["end_to_end_0", "sums_0", "constructed_0"]
    assert drawn["end_to_end_0"]["data"][0]["x"] == [10, 12]
    layers, pairs = drawn["constructed_0"]["data"]
    assert (layers["name"], layers["x"]) == ("G 1", [pytest.approx(0.5), None])
    assert (pairs["name"], pairs["x"]) == ("G 2", pytest.approx([0.5, 0.75]))
    assert bricks_devices.charts([none]) == ({}, [{}])
