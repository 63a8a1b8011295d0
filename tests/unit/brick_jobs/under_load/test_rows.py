"""What a job's row begins with, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.under_load.overhead import Conditions, Overhead, point_of
from inferbench_tasks.brick_jobs.under_load.rows import facts_of
from inferbench_tasks.brick_jobs.under_load.timed import Timed

CUT = CutModel(
    at=0, name="m", copies=1, task=None, digest="d", batch_size=1, granularity="1", layers=1, operators=("Op",),
    whole="whole-m", parts=("a",), needs=((),),
)  # fmt: skip
CONDITIONS = Conditions(
    backend="onnxruntime", runtime="onnxruntime 1", inferbench="1", protocol="http", client="fast", processor="p",
    cores=1,
)  # fmt: skip


def at(coverage: float, warning: str | None) -> dict[str, Any]:
    row = {"coverage_ratio": coverage, "predicted_ms": 1.0, "device": "p", "runtime": "onnxruntime 1"}
    return row | ({"warning": warning} if warning else {})


def facts(rows: dict[int, dict[str, Any]]) -> dict[str, Any]:
    points = tuple(point_of(n, np.full(200, 500_000), np.full(200, 50_000), 10_000.0) for n in (8, 10_000))
    return facts_of(Timed((), (), rows, {}, CUT), Overhead(conditions=CONDITIONS, points=points, runs=("r",)))


def test_the_warning_is_of_the_batch_size_of_which_the_least_is_measured() -> None:
    """80% of batch 1 and 20% of batch 8: the latter, by its size; its coverage is the row's. Without any there is
    none."""
    rows = {1: at(0.8, "only 80.0%"), 4: at(1.0, None), 8: at(0.2, "only 20.0%")}
    found = facts(rows)
    assert (found["warning"], found["coverage_ratio"]) == ("at batch 8 only 20.0%", 0.2)
    assert facts({1: at(1.0, None)})["warning"] is None
