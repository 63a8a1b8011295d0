"""A sweep over runtimes says of each line which runtime it is of."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.report.differing import differing
from inferbench_tasks.brick_jobs.report.tables import of_granularity
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.perfdb.documents import Provenance, SubmissionInfo

SETTING = {"processor": "p", "runtime": "onnxruntime 1", "threads": 1}


def result(run: str, precision: str = "fp32", **setting: Any) -> BricksResult:
    return BricksResult(
        run_id=run, job_id="x", submission=SubmissionInfo(name="x"), verdict=VALID, role="cut",
        setting=SETTING | setting, counts={"summary": [{"batch_size": 1}]},
        provenance=Provenance(**{"job": {"bricks": {"precision": precision}}}),
    )  # fmt: skip


def test_what_differs_is_said_and_nothing_else() -> None:
    """Two runtimes; two precisions and numbers of threads; one setting has no label."""
    assert differing([result("a"), result("b", runtime="openvino 2")]) == {
        "a": "onnxruntime 1",
        "b": "openvino 2",
    }
    both = differing([result("a"), result("b", "int8", threads=2)])
    assert both == {"a": "fp32, 1 thread", "b": "int8, 2 threads"}
    assert differing([result("a"), result("b")]) == {"a": "", "b": ""}


def test_errors_of_two_runtimes_are_told_apart() -> None:
    """Each line of the table by granularity is of one of them."""
    rows = of_granularity([result("a"), result("b", runtime="openvino 2")])
    assert [row["setting"] for row in rows] == ["onnxruntime 1", "openvino 2"]
