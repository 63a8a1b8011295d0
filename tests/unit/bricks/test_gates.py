"""Gates that are not judged by a part of what they ask for."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchmarks.bricks import fifty, serving, transfer
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.contracts.verdict import INTERFERENCE, VALID, Reason, Verdict
from inferbench_tasks.perfdb.documents import SubmissionInfo


def rows(predicted: float | None = 1.0, **where: Any) -> list[dict[str, Any]]:
    """All that the gate of loads asks for, 5% off; ``predicted`` of those ``where`` says."""
    every = [
        {"model": model, "batching": batching, "load": load, "figure": figure, "measured": 1.05}
        for model in serving.MODELS
        for batching in serving.BATCHINGS
        for load, figure in serving._keys()
    ]
    return [row | {"predicted": predicted if where.items() <= row.items() else 1.0} for row in every]


def test_the_gate_of_loads_is_passed_by_all_of_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    """Each within 10%."""
    assert serving._report(rows(), []) == 0
    assert capsys.readouterr().out.count("passed") == len(serving.GATES)


@pytest.mark.parametrize(
    "lacks",
    [
        {"model": "vit-tiny"},
        {"batching": "on"},
        {"load": 0.7},
        {"model": "resnet50", "batching": "on", "load": 0.3},
    ],
)
def test_a_part_of_the_gate_of_loads_is_not_judged(
    lacks: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model, a batching or a load, whether it was asked for or not."""
    part = [row for row in rows() if not lacks.items() <= row.items()]
    assert serving._report(part, []) == 2
    assert "p50_ms within 10%: not judged" in capsys.readouterr().out


@pytest.mark.parametrize("predicted", [None, 0.5])
def test_a_refused_prediction_fails_as_a_wrong_one(
    predicted: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one load of one model, whose run was valid."""
    found = rows(predicted, model="vit-tiny", batching="on", load=0.7, figure="p99_ms")
    assert serving._report(found, []) == 1 and serving._report(found[-1:] + found[:3], []) == 1
    said = capsys.readouterr().out
    assert "p99_ms within 20%: FAILED" in said and "p50_ms within 10%: passed" in said
    assert ("refused" in said) == (predicted is None)


def told(submission: dict[str, Any], refused: float) -> dict[str, Any]:
    """A capacity of 100/s; percentiles up to ``refused`` of it, and no capacity for 0."""
    rate = submission["load"]["arrivals"].get("rate_rps", 1.0)
    figures = dict.fromkeys(("p50_ms", "p99_ms"), None if rate > refused * 100 > 0 else 1.0)
    return {
        **figures, "p50_ms_interval": None, "p99_ms_interval": None, "capacity_rps": 100.0 if refused else None,
        "capacity_interval_rps": [90.0, 110.0], "saturation_rps": 120.0,
    }  # fmt: skip


RUN = {"run_id": "r", "p50_ms": 1.0, "p99_ms": 1.0, "max_rate_rps": 100.0}


def test_a_load_that_is_refused_is_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 70% of the capacity: its rows have what the run took, and no prediction."""
    monkeypatch.setattr(serving, "_predicted", lambda submission: told(submission, 0.6))
    monkeypatch.setattr(serving, "_run", lambda submission: RUN)
    found = {(row["load"], row["figure"]): row["predicted"] for row in serving._measured("m", "off", set())}
    assert found.keys() == {*serving._keys()} and found[None, "capacity_rps"] == 100
    assert [found[load, "p99_ms"] for load in serving.LOADS] == [1.0, 1.0, None]


def test_a_capacity_that_is_refused_is_looked_for_and_has_no_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """From half of the saturation on; loads are shares of it, and it is said that there are none."""
    asked: list[dict[str, Any]] = []

    def run(submission: dict[str, Any]) -> dict[str, Any]:
        asked.append(submission)
        return RUN

    monkeypatch.setattr(serving, "_predicted", lambda submission: told(submission, 0.0))
    monkeypatch.setattr(serving, "_run", run)
    made = serving._measured("m", "off", set())
    row = next(made)
    assert (row["figure"], row["predicted"], row["measured"]) == ("capacity_rps", None, 100)
    assert [one["load"]["arrivals"]["start_rate_rps"] for one in asked] == [60]
    with pytest.raises(serving.NoRow, match="no loads, they are shares of a capacity"):
        next(made)


def test_parts_of_transfer_that_were_not_asked_for_are_not_judged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all others passed."""
    monkeypatch.setattr(transfer, "_judged", lambda console, part, rows: 0)
    assert transfer._judge([*transfer.PARTS[:2]], pd.DataFrame()) == 2
    said = capsys.readouterr().out
    assert "not judged: int8 (not asked for)" in said and "not judged: openvino (not asked for)" in said
    assert transfer._judge([*transfer.PARTS], pd.DataFrame()) == 0


def shard(verdict: Verdict = VALID, **counts: Any) -> BricksResult:
    return BricksResult(
        run_id="x.000",
        job_id="x",
        submission=SubmissionInfo(name="x"),
        verdict=verdict,
        role="shard",
        counts=counts,
    )


def test_device_time_has_of_both_sides_all_that_timing_takes() -> None:
    """Five models that took 10 s each, the last of them three times in the list: 70 s. Shards of 100 s, all of whose
    models choose a state or tell an interval: 0.70, which is judged; less the fifth, which calibrates nothing, they are
    90: 0.78, which stands beside it. Where it was not kept what models took beside their runs, these alone count
    (8 s each: 56 over 100, and over 92), and that is said, and where it was not kept who tells intervals all count. A
    disturbed session is told apart; rounds that an ended one left to a shard count with it, as its models' time in them
    does."""
    rows = pd.DataFrame(
        {
            "copies": [1, 1, 1, 1, 3],
            "model": list("CRGSM"),
            "whole": [f"whole-{at}" for at in range(5)],
            "runs_s": [8.0] * 5,
            "taken_s": [10.0] * 5,
            "calibrated_by": [["R", "G", "S"], *[["C", "R", "G"]] * 3, None],
            "told_by": [
                [f"whole-{at}" for at in places] for places in ((1, 2, 3, 4), *[(0, 1, 2, 4)] * 3, ())
            ],
        }
    )
    summary = {"speedup_ratio": 4.0, "unique": 20}
    busy = Verdict.judged([Reason(check=f"{INTERFERENCE}.level", text="busy")])
    wholes = {f"whole-{at}": 10.0 for at in range(5)}
    shards = [
        shard(seconds=100.0, stored=25, wholes_s=wholes),
        shard(busy, seconds=7.0, stored=25, wholes_s=wholes),
    ]
    assert fifty.taken_s(shards) == wholes
    [_, (_, text, held)] = fifty._savings("paper50", shards, summary, rows)
    assert not held and text.startswith(
        "0.70 (70 s of models, 100 s of shards with the 5 whole models that predictions use; "
        "with the 4 alone that calibrate 0.78, of 90 s"
    )
    assert "disturbed sessions took 7 s more" in text
    went_on = shard(seconds=70.0, earlier_s=30.0, stored=25, wholes_s=wholes)
    assert fifty._savings("paper50", [went_on, shards[1]], summary, rows)[1][1] == text
    rows.loc[2, "taken_s"] = None
    [_, (_, text, _)] = fifty._savings("paper50", shards, summary, rows)
    assert text.startswith(
        "0.56 (56 s of models' runs, without loading and first runs, which the shards have, 100 s"
    )
    assert "with the 4 alone that calibrate 0.61, of 92 s" in text
    rows["told_by"] = None
    assert fifty._savings("paper50", shards, summary, rows)[1][1] == text
