"""What a corpus' times on a device say, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.analysis import bricks_devices
from inferbench_tasks.analysis.charts.style import MAX_RUNS
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.study_times import Member, _named, of_setting
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
    assert (first["models"], second["models"]) == (["one"], ["one", "two"])
    assert (second["calibrated_models"], second["disturbed"]) == (0, 0)
    assert second["geometric_mean"] == pytest.approx((0.5 * 0.75) ** 0.5)
    assert second["speedup_ratio"] == pytest.approx(42 / 9) and second["calibrated_geometric_mean"] is None


@pytest.mark.parametrize("name", ["c", f"{WHOLE}1"])
def test_a_model_that_was_timed_amid_others_work_is_not_among_those_that_figures_are_of(name: str) -> None:
    """Whether that was one of its bricks or itself: figures and the names beside them are of the same models."""
    known = {**KNOWN, name: KNOWN[name].model_copy(update={"disturbed": "busy"})}
    _, pairs = of_setting(SETTING, MEMBERS, CUTS, known)["granularities"]
    assert (pairs["models"], pairs["architectures"], pairs["disturbed"]) == (["one"], 1, 1)
    assert pairs["speedup_ratio"] == pytest.approx(30 / 5)


def test_the_pictures_have_a_line_for_each_device_and_what_there_is_of_each() -> None:
    """Figures 11 and 12 of both, those of other models apart, the set of more models first; 9, 3 and 10 of the one that
    has models."""
    one = of_setting(SETTING, MEMBERS, CUTS, KNOWN)
    none = {**one, "device": "other", "models": [], "granularities": []}
    overview, (drawn, empty) = bricks_devices.charts([one, none])
    assert list(overview) == [f"device_{of}_{at}" for at in (1, 2) for of in ("means", "speedups")]
    [both], [first] = (overview[f"device_speedups_{at}"]["data"] for at in (1, 2))
    assert (both["x"], first["x"]) == (["2"], ["1"]) and empty == {}
    assert (both["y"], first["y"]) == ([pytest.approx(42 / 9)], [pytest.approx(7.5)])
    assert both["name"] == "p (i), onnxruntime 1, 1 core(s), threads 1"
    assert bricks_devices.numbers([one, none]) == [[2, 1], []]
    assert bricks_devices.described_sets([one, none]) == [
        "Set 1, 2 architecture(s): one, two",
        "Set 2, 1 architecture(s): one",
    ]
    assert list(drawn) == ["end_to_end_0", "sums_0", "constructed_0"]
    assert drawn["end_to_end_0"]["data"][0]["x"] == [10, 12]
    layers, pairs = drawn["constructed_0"]["data"]
    assert (layers["name"], layers["x"]) == ("G 1", [pytest.approx(0.5), None])
    assert (pairs["name"], pairs["x"]) == ("G 2", pytest.approx([0.5, 0.75]))
    assert bricks_devices.charts([none]) == ({}, [{}])


def test_what_is_not_drawn_is_said() -> None:
    """More settings than a picture has lines, and more sets than there are pictures."""
    row = {"granularity": "1", "geometric_mean": 1.0, "speedup_ratio": 2.0}
    head = {"device": "p", "instruction_set": "i", "runtime": "r 1", "cores": 1, "threads": 1, "models": []}
    many = [{**head, "granularities": [{**row, "models": ["one"]}]} for _ in range(MAX_RUNS + 1)]
    others = [{**head, "granularities": [{**row, "models": [name]}]} for name in "abcd"]
    overview, _ = bricks_devices.charts([*many, *others])
    assert len(overview["device_means_1"]["data"]) == MAX_RUNS and len(overview) == 8
    said = bricks_devices.described_sets([*many, *others])
    assert (
        said[0]
        == f"Set 1, 1 architecture(s); drawn are the newest {MAX_RUNS} of {MAX_RUNS + 1} settings: one"
    )
    assert said[3] == "Set 4, 1 architecture(s): c" and said[4] == "Set 5, 1 architecture(s); not drawn: d"


def document(name: str, granularity: str, whole: str, *made_from: str) -> dict[str, Any]:
    return {
        "model": name, "granularity": granularity, "whole": whole, "shapes": (), "made_from": list(made_from)
    }  # fmt: skip


def test_a_name_alone_gives_no_model_the_times_of_another() -> None:
    """Not those of another version, of a model that is called the same or that another member is; and of what was cut
    under a name the newest alone, at each granularity at which that was."""
    members = [
        Member("net", 1, "version 1"), Member("model", 1, None), Member("model", 1, "b"), Member("old", 1, "now"),
        Member("file", 1, None), Member("there", 1, "its own"),
    ]  # fmt: skip
    found = [
        document("net", "1", "w2", "version 2"),
        document("model", "1", "wb", "b"),
        document("model", "2", "wa"),
        document("old", "1", "new"),
        document("old", "2", "older"),
        document("old", "3", "new"),
        document("file", "1", "wb", "b"),
        document("file", "2", "its", "somebody's"),
        document("there", "5", "before"),
    ]
    assert _named(found, members, known={2, 5}) == {
        (3, "1"): found[3], (3, "3"): found[5], (4, "2"): found[7],
    }  # fmt: skip


def test_models_that_are_called_the_same_are_told_apart() -> None:
    """By their places in the corpus, as what is known of either."""
    members = [MEMBERS[0], MEMBERS[1]._replace(name="one"), *MEMBERS[2:]]
    found = of_setting(SETTING, members, CUTS, KNOWN)
    assert [one["model"] for one in found["models"]] == ["one (1)", "one (2)"]
    assert found["granularities"][1]["models"] == ["one (1)", "one (2)"] and "three" in found["without"]
