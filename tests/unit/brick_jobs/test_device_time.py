"""What bricks save of a device's time, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.brick_jobs.cutting import CutModel, Cutting, ToMeasure
from inferbench_tasks.brick_jobs.device_time import device_time, saved
from inferbench_tasks.brick_jobs.report.tables import _device_time
from inferbench_tasks.brick_jobs.result import PredictedModel
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.results import WHOLE
from tests.unit.bricks.builders import SETTING


def cut(at: int, copies: int = 1) -> CutModel:
    return CutModel(
        at=at, name=f"m{at}", copies=copies, task=None, digest=str(at), batch_size=1, granularity="1", layers=1,
        operators=("CRGSM"[at],), whole=f"{WHOLE}{at}", parts=("a",), needs=((),),
    )  # fmt: skip


def cutting(*cuts: CutModel, reused: int = 0) -> Cutting:
    todo = [
        ToMeasure(
            item=Item(name=f"n{shard}", path=Path("n"), feeds=Path("n")), key="k", operators=("C",), layers="l",
            estimate_s=1.0, shard=shard,
        )
        for shard in (0, 1)
    ]  # fmt: skip
    return Cutting(setting=SETTING, cuts=cuts, todo=tuple(todo), failed={}, reused=reused)


def shards(**changes: Any) -> dict[int, dict[str, Any]]:
    """Of 40 and 60 s, in which five models took 10 s each."""
    wholes = [{f"{WHOLE}{at}": 10.0 for at in places} for places in ((0, 1), (2, 3, 4))]
    usual: dict[str, Any] = {"disturbed": None, "failed": {}}
    return {
        at: usual | {"seconds": seconds, "wholes_s": wholes[at]} | (changes if at else {})
        for at, seconds in enumerate((40.0, 60.0))
    }


def made(*places: int, judging: tuple[int, ...] = ()) -> dict[int, list[PredictedModel]]:
    """Predictions that the models of these places calibrate, and that others tell of, too."""
    times = {"ms": 1.0, "low_ms": 1.0, "high_ms": 1.0}
    one = PredictedModel.model_validate(
        {
            "batch_size": 1, "granularity": "1", "layers": 1, "bricks": 1, "unique": 1, "coverage_ratio": 1.0,
            "constructed": times, "streamed": times, "parallel": times, "calibrated_by": ["m"] * len(places) or None,
            "told_by": [f"{WHOLE}{at}" for at in (*places, *judging)],
        }
    )  # fmt: skip
    return {0: [one]}


CUTS = (cut(0), cut(1), cut(2), cut(3), cut(4, copies=3))


def test_models_over_shards_without_those_that_predictions_do_not_use() -> None:
    """7 x 10 s over 100 s less the 10 of the fifth model; where none tells anything 50 s are left of the shards."""
    found = device_time(cutting(*CUTS), shards(), made(0, 1, 2, 3))
    assert found == {
        "models_s": 70,
        "used": 4,
        "used_bricks_s": 90,
        "used_speedup_ratio": pytest.approx(70 / 90),
        "calibrating": 4,
        "bricks_s": 90,
        "speedup_ratio": pytest.approx(70 / 90),
    }
    found = device_time(cutting(*CUTS), shards(), made())
    assert found is not None and (found["bricks_s"], found["calibrating"]) == (50, 0)
    assert (found["used_bricks_s"], found["used"]) == (50, 0)


def test_what_chooses_states_and_tells_intervals_is_used_too() -> None:
    """Ten models of 20 s, shards of 300 s, four calibrate and the other six choose states and tell intervals: 200 / 300
    = 0.67 with all that predictions use, 200 / (300 - 6 x 20) = 1.11 with those alone that calibrate. Both are said,
    each with what it counts."""
    names = [f"{WHOLE}{at}" for at in range(10)]
    found = saved(
        [(name, 1) for name in names], dict.fromkeys(names, 20.0), 300.0, set(names[4:]), set(names[:4])
    )
    assert (found["used"], found["used_speedup_ratio"]) == (10, pytest.approx(200 / 300))
    assert (found["calibrating"], found["speedup_ratio"]) == (4, pytest.approx(200 / 180))
    said = _device_time(found)
    assert "300 s with the 10 whole models that predictions use" in said and "0.667 times; 180 s" in said
    assert said.endswith("180 s with the 4 models that calibrate alone: 1.11 times.")
    before = {name: found[name] for name in ("models_s", "bricks_s", "calibrating", "speedup_ratio")}
    assert _device_time(before).endswith("1.11 times, without those that choose states and tell intervals.")
    of_some = device_time(cutting(*CUTS), shards(), made(0, 1, 2, judging=(4,)))
    assert of_some is not None and (of_some["bricks_s"], of_some["used_bricks_s"]) == (80, 90)


def test_of_two_entries_called_alike_the_one_that_calibrates_is_paid_for() -> None:
    """The fourth and fifth are one name with other sizes of inputs: the fourth calibrates, the fifth's 10 s are taken
    off."""
    cuts = [one.model_copy(update={"name": "m"}) for one in CUTS]
    found = device_time(cutting(*cuts), shards(), made(0, 1, 2, 3))
    assert found is not None and (found["calibrating"], found["bricks_s"]) == (4, 90)


def test_models_that_are_timed_as_one_are_taken_off_once() -> None:
    """The fourth and fifth have the same layers: without bricks both would be timed, the fifth three times, which makes
    70 s; of the 100 s of the shards the 10 that both took together are taken off, and not 20."""
    cuts = (*CUTS[:3], cut(3), cut(4, copies=3).model_copy(update={"whole": f"{WHOLE}3"}))
    found = device_time(cutting(*cuts), shards(), made(0, 1, 2))
    assert found is not None and (found["models_s"], found["bricks_s"]) == (70, 90)


@pytest.mark.parametrize(
    "changes",
    [{"disturbed": "busy"}, {"failed": {"n1": "why"}}, {"wholes_s": {f"{WHOLE}2": 10.0}}, {"went_on": True}],
)
def test_what_is_not_all_there_is_no_figure(changes: dict[str, Any]) -> None:
    """A disturbed shard, a network that failed, a model without its time, a shard that an attempt that was killed had
    begun; what was known before; two batch sizes; a shard that did not end."""
    assert device_time(cutting(*CUTS), shards(**changes), made()) is None
    assert device_time(cutting(*CUTS, reused=1), shards(), made()) is None
    assert device_time(cutting(*CUTS, cut(4)), shards(), made()) is None
    assert device_time(cutting(*CUTS), {0: shards()[0]}, made()) is None
    assert device_time(cutting(), shards(), made()) is None
