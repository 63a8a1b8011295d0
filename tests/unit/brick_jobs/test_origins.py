"""On which hosts the times of a prediction were measured, and what was not measured."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.origins import in_words
from inferbench_tasks.brick_jobs.places import UNKNOWN, Place
from inferbench_tasks.brick_jobs.predictions import predictions
from inferbench_tasks.brick_jobs.result import PredictedModel
from inferbench_tasks.bricks.interpolation import interpolated
from inferbench_tasks.bricks.measure.method import STATES
from inferbench_tasks.bricks.prediction import StandIns
from inferbench_tasks.bricks.results import WHOLE, Result
from tests.unit.bricks.builders import result

A = Place("a", "host-a")


def timed(identity: str, home: str, ns: float = 10.0) -> Result:
    """Measured on the host of that letter; "": on one that nobody knows."""
    times = dict.fromkeys(STATES, (ns,) * 3)
    host = f"host-{home}" if home else ""
    return result(identity, ns, ns).model_copy(update={"rounds_ns": times, "home": home, "host": host})


def cut(at: int, operator: str, parts: str) -> CutModel:
    return CutModel(
        at=at, name=f"m{at}", copies=1, task=None, digest=str(at), batch_size=4, granularity="1", layers=len(parts),
        operators=(operator,), whole=f"{WHOLE}{at}", parts=tuple(parts), needs=((),) * len(parts),
    )  # fmt: skip


def of(one: PredictedModel) -> list[tuple[str, int, list[str]]]:
    return [(origin.how, origin.times, origin.hosts) for origin in one.origins]


def test_each_prediction_says_where_its_times_were_measured() -> None:
    """Also where all are the own host's, of which nothing else is said; of a brick that stands twice once."""
    [[one]] = predictions(
        [cut(0, "C", "xxy")], {"x": timed("x", "a"), "y": timed("y", "a")}, 3, own=A
    ).values()
    assert of(one) == [("measured", 2, ["host-a"])] and one.timed_on == []


def test_what_is_not_measured_names_the_hosts_that_it_follows_from() -> None:
    """Interpolated between times of two hosts, estimated from those of a third, and measured on one that is not known:
    all of them are named, each with its part."""
    known = {
        "x": timed("x", ""),
        "y": interpolated(timed("y1", "a"), timed("y8", "b"), (1, 8), 4, "y"),
        "z": timed("z", "").model_copy(update={"from_hosts": (("c", "host-c"),)}),
    }
    unmeasured = {
        how: dict.fromkeys(STATES, StandIns(frozenset(name), 0.5, 2.0))
        for how, name in (("interpolated", "y"), ("estimated", "z"))
    }
    [[one]] = predictions([cut(0, "C", "xyz")], known, 3, unmeasured={0: unmeasured}, own=A).values()
    assert of(one) == [
        ("measured", 1, [UNKNOWN]), ("interpolated", 1, ["host-a", "host-b"]), ("estimated", 1, ["host-c"]),
    ]  # fmt: skip
    assert one.timed_on == [UNKNOWN, "host-a", "host-b", "host-c"]
    assert in_words(one.origins) == (
        f"1 measured on {UNKNOWN}, 1 interpolated between times of host-a and host-b, 1 estimated from times of host-c"
    )
    assert in_words(origin.model_dump() for origin in one.origins) == in_words(one.origins)


def test_what_calibrates_is_told_apart_from_the_models_own() -> None:
    """Three other models, each of a brick and itself, on another host."""
    cuts = [cut(at, operator, part) for at, (operator, part) in enumerate(zip("CRGS", "wxyz", strict=True))]
    known = {"w": timed("w", "a")} | {name: timed(name, "b") for name in "xyz"}
    known |= {f"{WHOLE}{at}": timed(f"{WHOLE}{at}", "b", 12.0) for at in (1, 2, 3)}
    [one] = predictions(cuts, known, 3, own=A)[0]
    assert one.factor == pytest.approx(1.2) and one.timed_on == ["host-a", "host-b"]
    assert of(one) == [("measured", 1, ["host-a"]), ("calibrating", 6, ["host-b"])]
    assert in_words(one.origins) == "1 measured on host-a, calibrated by 6 times of host-b"


def test_the_model_itself_is_none_of_what_its_prediction_follows_from() -> None:
    """Measured as a whole on another host it is what the prediction is compared with."""
    known = {"w": timed("w", "a"), f"{WHOLE}0": timed(f"{WHOLE}0", "b", 12.0)}
    [[one]] = predictions([cut(0, "C", "w")], known, 3, own=A).values()
    assert one.measured is not None and one.timed_on == []
    assert of(one) == [("measured", 1, ["host-a"])]


def test_between_two_times_of_one_host_it_is_that_host() -> None:
    """And of what was interpolated already, all that it was of."""
    between = interpolated(timed("y1", "a"), timed("y8", "a"), (1, 8), 4, "y")
    assert between.places == (("a", "host-a"),) and between.home == ""
    assert interpolated(between, timed("y9", "b"), (4, 9), 5, "y").places == (
        ("a", "host-a"),
        ("b", "host-b"),
    )
