"""Predictions of stored runs."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import Provenance
from inferbench_tasks.training.diagnosis.predict import predicted, table
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.diagnosis.test_measured import JOB, result


def placed(read: str, read_ms: float) -> TrainingResult:
    """A run of which reading a batch takes so long, of 4 ms of decoding beside (2 of them a wait)."""
    of = result()
    assert of.summary is not None
    loader: dict[str, Any] = {**of.summary.loader}
    loader["parts"] = {**loader["parts"], "read_ms": read_ms, "making_ms": read_ms + 4.0}
    job = {**JOB, "data": {**JOB["data"], "read": read}, "loader": {"workers": 0}}  # type: ignore[dict-item]
    return of.model_copy(
        update={
            "run_id": f"x-1.{read}",
            "summary": of.summary.model_copy(update={"loader": loader}),
            "provenance": of.provenance.model_copy(update={"job": job}),
        }
    )


def test_a_setting_is_predicted_by_the_runs_own_pipeline() -> None:
    """Making 2 ms, the rest 5 and a hand-over of 0.1: one loader process makes 5.1 ms of 7, 8 samples each."""
    one = predicted(result(), [], workers=1)
    assert one["predicted_step_ms"] == pytest.approx(5.1) and one["bound_by"] == "the rest of the step"
    assert one["predicted_samples_per_s"] == pytest.approx(8 / 5.1 * 1e3)
    assert one["by_the_measured_step"] == pytest.approx(5.1 / 12)


def test_more_ranks_on_the_same_cores_are_bound_by_them() -> None:
    """16 ranks on 8 cores have twice the work of one on each."""
    many = predicted(result(), [], ranks=16)
    alone = predicted(result(), [], ranks=16, cores=16)
    assert many["bound_by"] == "cores" and alone["bound_by"] == "making, then the rest"
    assert many["predicted_step_ms"] > alone["predicted_step_ms"] == pytest.approx(7.0)


def test_a_cache_is_between_warm_and_cold_reads() -> None:
    """1 ms warm and 9 ms cold: with half of the files in memory 5; nobody can tell without both runs."""
    warm, cold = placed("warm", 1.0), placed("cold", 9.0)
    steps = [predicted(warm, [warm, cold], cached=share)["predicted_step_ms"] for share in (1.0, 0.5, 0.0)]
    assert steps[1] - steps[0] == pytest.approx(4.0) and steps[2] - steps[1] == pytest.approx(4.0)
    with pytest.raises(InputError, match="there is none with cold files"):
        predicted(warm, [warm], cached=0.5)


def test_a_rank_that_makes_its_batches_reads_from_the_same_cache() -> None:
    """By itself it makes a batch in 3 ms with warm reads of 1; cold ones take 8 ms more there, too."""
    warm, cold = (
        of.model_copy(
            update={
                "summary": of.summary and of.summary.model_copy(update={"probes": {"own_making_ms": 3.0}}),
                "provenance": Provenance.model_validate(
                    {"job": {**of.provenance.model_dump()["job"], "loader": {"workers": 1}}}
                ),
            }
        )
        for of in (placed("warm", 1.0), placed("cold", 9.0))
    )
    alone = [
        predicted(warm, [warm, cold], workers=0, cached=share)["predicted_step_ms"] for share in (1.0, 0.0)
    ]
    assert alone == pytest.approx([3.0 + 5.0, 3.0 + 8.0 + 5.0])


def test_a_cache_of_a_run_from_memory_has_what_files_take_beside_reading() -> None:
    """In memory nothing is decoded: the 2 ms of it are those of the warm run. 2 + (1 + 9) / 2 + 5 of the rest."""
    warm, cold = placed("warm", 1.0), placed("cold", 9.0)
    job = {**JOB, "data": {**JOB["data"], "where": "memory"}, "loader": {"workers": 0}}  # type: ignore[dict-item]
    assert warm.summary is not None
    parts = dict.fromkeys(warm.summary.loader["parts"], 0.0) | {"collate_ms": 2.5, "making_ms": 2.5}
    summary = warm.summary.model_copy(update={"loader": {**warm.summary.loader, "parts": parts}})
    provenance = warm.provenance.model_copy(update={"job": job})
    memory = warm.model_copy(update={"run_id": "x-1.memory", "summary": summary, "provenance": provenance})
    found = predicted(memory, [memory, warm, cold], cached=0.5)
    assert found["predicted_step_ms"] == pytest.approx(12.0)


def test_enough_cores_are_those_of_all_threads() -> None:
    """Four threads of a rank and its loader processes."""
    of = result()
    job = {**JOB, "devices": {"threads": 4}, "loader": {"workers": 0}}
    rows = table(of.model_copy(update={"provenance": of.provenance.model_copy(update={"job": job})}))
    assert [row["enough_cores"] for row in rows[:2]] == [4, 5]


def test_the_table_ends_where_more_processes_bring_nothing() -> None:
    """From none on, each beside the same with enough cores."""
    rows = table(result())
    assert [row["workers"] for row in rows] == list(range(len(rows))) and 3 <= len(rows) < 17
    assert rows[1]["predicted_step_ms"] == pytest.approx(5.1) and rows[1]["enough_cores"] == 2


def test_a_run_that_does_not_count_predicts_nothing() -> None:
    """The reason is its verdict."""
    bad = result(verdict=Verdict.judged([Reason(check="steps", text="too few")]))
    with pytest.raises(InputError, match="too few"):
        table(bad)
