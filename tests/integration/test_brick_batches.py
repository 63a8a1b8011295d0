"""Predictions at batch sizes that were not measured, over REST and in advice, from a real PerfDB: by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from benchmarks.bricks import transfer
from inferbench_tasks.brick_jobs.places import Place
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.results import WHOLE, Result
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
API = "/inferbench/api/bricks"
SETTING = Setting(processor="Some CPU", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
#: Student's for 95% with three degrees of freedom.
T3 = 3.182446305284263
#: A model's two bricks, ms by batch size: on the lines to 4 samples 4 and 6.
TIMES = {1: (1.0, 3.0), 8: (8.0, 10.0)}


class Stored:
    """Models of which times are made up."""

    def __init__(self, db: PerfDB, place: Place | None = None) -> None:
        self.results = PerfDBResults(db, SETTING, place=place)
        self.results.set_base_ns({"dense": 1.0})

    def put(self, identity: str, ms: float, operator: str) -> None:
        times = {"warm": (ms * 1e6,) * 3} | (
            {} if identity.startswith(WHOLE) else {"streamed": (ms * 2e6,) * 3}
        )
        self.results.put(
            Result(
                identity=identity, key=identity, operators=(operator,), setting=SETTING, session="s",
                method=Method(), rounds_ns=times, raw_ns={}, home=self.results.place.home,
                host=self.results.place.host,
            )
        )  # fmt: skip

    def model(
        self,
        name: str,
        times: Mapping[int, Sequence[float]],
        wholes: Mapping[int, float] | None = None,
        needs: Sequence[Sequence[int]] = ((), (0,)),
        first: Sequence[str] = (),
    ) -> None:
        """``times``: batch size -> of each brick, ms; 0: not measured. ``first``: the names of its first bricks, which
        may be another model's."""
        for batch, all_ms in times.items():
            names = [*first, *(f"{name}{at}" for at in range(len(first), len(all_ms)))]
            parts = [f"{one}-{batch}" for one in names]
            for at, ms in enumerate(all_ms):
                if ms:
                    self.put(parts[at], ms, names[at])
            whole = f"{WHOLE}{name}-{batch}"
            if wholes and batch in wholes:
                self.put(whole, wholes[batch], name)
            facts = {"model": name, "digest": name, "batch_size": batch, "instruction_set": "x", "layers": 2}
            work = [
                {"identity": part, "operators": [names[at]], "flops": 1.0, "moved_bytes": 1.0}
                for at, part in enumerate(parts)
            ]
            self.results.put_cut(whole, "1", parts, needs[: len(parts)], facts, work)


@pytest.fixture
def stored(perfdb: PerfDB) -> Stored:
    return Stored(perfdb)


def predict(http: TestClient, batch: int, model: str = "m") -> dict[str, object]:
    found = http.get(f"{API}/predict", params={"model": model, "batch_size": batch})
    assert found.status_code == 200, found.text
    return dict(found.json())


def test_a_size_between_is_interpolated_and_never_called_measured(http: TestClient, stored: Stored) -> None:
    """4 + 6 ms; nothing of it is measured, which is said first; its interval is what the times allow."""
    stored.model("m", TIMES)
    found = predict(http, 4)
    assert next(iter(found)) == "warning"
    assert found["warning"] == (
        "only 0.0% of this time is measured: 2 of 2 unique bricks are interpolated between batch 1 and 8"
    )
    assert found["predicted_ms"] == pytest.approx(10) and found["streamed_ms"] == pytest.approx(20)
    assert found["predicted_interval_ms"] == pytest.approx([4 + 5, 4 + 10])
    assert (found["coverage_ratio"], found["interpolated_ratio"]) == (0, 1)
    assert (found["interpolated_between"], found["interpolation_error_ratio"]) == ([1, 8], None)
    assert found["missing"] == 2 and found["calibrated_by"] is None and found["measured_ms"] is None
    assert predict(http, 8)["coverage_ratio"] == 1 and "interpolated" not in predict(http, 8)


def test_what_is_interpolated_names_the_hosts_of_both_ends(http: TestClient, perfdb: PerfDB) -> None:
    """Batch 1 was timed on one host, 8 on another, and one brick at 4 on a third: each is said of what it is of."""
    a, b, c = (Stored(perfdb, Place(name * 32, f"host-{name}")) for name in "abc")
    a.model("m", {1: TIMES[1]})
    b.model("m", {8: TIMES[8]})
    found = predict(http, 4)
    assert found["timed_on"] == ["host-a", "host-b"]
    assert found["origins"] == [{"how": "interpolated", "times": 2, "hosts": ["host-a", "host-b"]}]
    c.model("m", {4: (14.0, 0)})
    found = predict(http, 4)
    assert found["timed_on"] == ["host-a", "host-b", "host-c"]
    assert found["origins"] == [
        {"how": "measured", "times": 1, "hosts": ["host-c"]},
        {"how": "interpolated", "times": 1, "hosts": ["host-a", "host-b"]},
    ]


def test_beyond_what_is_measured_is_refused_with_what_is_there(http: TestClient, stored: Stored) -> None:
    """Also where the model was cut at that size, and a size with a brick missing is none."""
    stored.model("m", TIMES | {32: (30.0, 0)})
    for batch in (16, 32):
        found = http.get(f"{API}/predict", params={"model": "m", "batch_size": batch})
        assert found.status_code == 404
        assert f"measured there at batch 1 and 8; {batch} is beyond" in found.text
    advice = http.get(f"{API}/advise", params={"model": "m", "batch_size": 32}).json()
    assert "32 is beyond" in advice["left_out"][0]["why"]


def test_models_that_were_measured_between_tell_how_far_it_is_off(http: TestClient, stored: Stored) -> None:
    """Three others are interpolated at 1.1 times what they took at 4: Student's quantile of that is the interval."""
    stored.model("m", TIMES)
    for name in "abc":
        stored.model(name, TIMES | {4: (4 / 1.1, 6 / 1.1)})
    found = predict(http, 4)
    assert found["interpolation_judged_by"] == 3
    assert found["interpolation_error_ratio"] == pytest.approx(0.1)
    low, high = 10 * math.exp(-T3 * math.log(1.1)), 10 * math.exp(T3 * math.log(1.1))
    assert found["predicted_interval_ms"] == pytest.approx([low, high])
    assert predict(http, 4, "a")["coverage_ratio"] == 1


def test_others_calibrate_it_and_the_model_itself_does_not(http: TestClient, stored: Stored) -> None:
    """Others took 1.2 times their warm sums at both sizes: 12 ms; the model itself took five times, which is left out.
    Where others took 1.9 times these, and so 0.95 times their streamed sums, it is those times 0.95: 19 ms."""
    stored.model("m", TIMES, wholes={1: 20.0, 8: 90.0})
    for name in "abc":
        stored.model(name, TIMES, wholes={1: 4.8, 8: 21.6})
    found = predict(http, 4)
    assert found["factor"] == pytest.approx(1.2) and found["predicted_ms"] == pytest.approx(12)
    assert found["measured_ms"] is None and (found["state"], found["judged_by"]) == ("warm", 3)
    for name in "defgh":
        stored.model(name, TIMES, wholes={1: 7.6, 8: 34.2})
    found = predict(http, 4)
    assert (found["state"], found["constructed_ms"], found["warm_ms"]) == ("streamed", 20, 10)
    assert found["predicted_ms"] == pytest.approx(19) and found["judged_by"] == 8


def test_another_export_of_the_model_neither_calibrates_nor_judges_it(
    http: TestClient, stored: Stored
) -> None:
    """All but a fiftieth of its time is in the model's own bricks, and it has a transposition more: of three models
    that took 1.2 times their sums two are others, which are too few. With a third other one there are enough."""
    stored.model("m", TIMES)
    wholes = {1: 4.8, 8: 21.6}
    for name in "ab":
        stored.model(name, TIMES | {4: (4 / 1.1, 6 / 1.1)}, wholes=wholes)
    again = {1: (*TIMES[1], 0.08), 8: (*TIMES[8], 0.36), 4: (4 / 1.1, 6 / 1.1, 0.2)}
    needs = ((), (0,), (1,))
    stored.model("export", again, wholes=wholes, needs=needs, first=("m0", "m1"))
    found = predict(http, 4)
    assert found["calibrated_by"] is None and found["interpolation_judged_by"] == 2
    stored.model("c", TIMES | {4: (4 / 1.1, 6 / 1.1)}, wholes=wholes)
    found = predict(http, 4)
    assert sorted(found["calibrated_by"]) == ["a", "b", "c"] and found["interpolation_judged_by"] == 3  # type: ignore[call-overload]


def test_what_is_measured_at_the_size_counts_before_what_is_interpolated(
    http: TestClient, stored: Stored
) -> None:
    """One brick took 14 ms at 4 samples: 14 + 6, of which 70% is measured."""
    stored.model("m", TIMES | {4: (14.0, 0)})
    found = predict(http, 4)
    assert found["predicted_ms"] == pytest.approx(20)
    assert (found["coverage_ratio"], found["interpolated_ratio"]) == pytest.approx((0.7, 0.3))
    assert (found["missing"], found["interpolated"], found["unique"]) == (1, 1, 2)


def test_a_model_that_is_cut_otherwise_in_larger_batches_has_no_line(
    http: TestClient, stored: Stored
) -> None:
    """Two bricks at 1 and one at 8: none can be interpolated, and why is said."""
    stored.model("m", {1: (1.0, 3.0), 8: (8.0,)})
    found = http.get(f"{API}/predict", params={"model": "m", "batch_size": 4})
    assert found.status_code == 404 and "not cut into the same layers" in found.text


def test_advice_does_not_rank_what_is_interpolated(http: TestClient, stored: Stored) -> None:
    """It is left out, like what is estimated: less than 90% of it is measured."""
    stored.model("m", TIMES)
    found = http.get(f"{API}/advise", params={"model": "m", "batch_size": 4}).json()
    assert not found["ranked"] and "only 0.0% of its time is measured" in found["left_out"][0]["why"]


def test_the_benchmark_predicts_from_two_sizes_alone_and_judges_by_the_others(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four models that took twice their sums: each is predicted at what it took at 2 and 4, whatever its bricks took
    there. Repeats that differ by more than 5% do not count, nor does a table that lacks a model."""
    wholes = {1: 8.0, 2: 12.0, 4: 20.0, 8: 36.0}
    for name in "abcd":
        stored.model(name, TIMES | {2: (1.0, 1.0), 4: (9.0, 9.0)}, wholes=wholes)
    part = dataclasses.replace(transfer.PARTS[0], models=tuple("abcd"))
    rows = list(part.rows(stored.results, part))
    monkeypatch.setattr(transfer, "PARTS", (part,))
    assert [(row["model"], row["batch_size"]) for row in rows] == [
        (name, at) for name in "abcd" for at in (2, 4)
    ]
    for row in rows:
        assert row["predicted_ms"] == pytest.approx(row["measured_ms"]) and row["calibrated"]
    assert rows[1]["interpolated_over_measured_bricks"] == pytest.approx(10 / 18)
    assert transfer._judge([part], pd.DataFrame(rows)) == 0
    off = [row | {"predicted_ms": 1.05 * row["predicted_ms"]} for row in rows]
    assert transfer._judge([part], pd.DataFrame(off)) == 1
    noisy = [row | {"rounds_ms": [1.0, 1.06]} for row in rows]
    assert transfer._judge([part], pd.DataFrame(noisy)) == 2
    assert transfer._judge([part], pd.DataFrame(rows[:-1])) == 2
    assert transfer._judge([part], pd.DataFrame()) == 2
