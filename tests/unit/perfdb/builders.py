"""Results for tests, with figures that are easy to recognise."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from bson import ObjectId

from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.file_ids import new_file_id
from inferbench_tasks.perfdb.store import PerfDB


def result(run_id: str = "run-1", **changes: Any) -> ResultDocument:
    """A valid result; ``changes`` replace whole top-level fields."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "job_id": "job-1",
        "invocation_id": "invocation-1",
        "submission": {"name": "quickstart", "user": "vision-team", "digest": "ab" * 32},
        "model": {"name": "resnet50", "version": 2, "parameters": 25_557_032, "framework": "torch"},
        "format": "onnx",
        "backend": {
            "kind": "onnxruntime",
            "version": "1.23",
            "launcher": "process",
            "settings": {"threads": 2, "label": "fast"},
        },
        "device": {"kind": "cpu", "name": "Example CPU"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 80.0}, "batch_size": 4, "duration_s": 10.0},
        "summary": {
            "e2e_latency_ms": {"mean": 5.0, "p50": 4.5, "p99": 20.25, "p999": None},
            "throughput_rps": 79.5,
            "errors": {"http_5xx": 3},
        },
        "verdict": "valid",
        **changes,
    }
    return ResultDocument.model_validate(values)


def latency(run_id: str, p99: float | None, **changes: Any) -> ResultDocument:
    """A result with that p99."""
    summary = {"e2e_latency_ms": {"p99": p99}, "throughput_rps": 10.0}
    return result(run_id, summary=summary, **changes)


def begun_before(db: PerfDB, file_id: str, days: float) -> str:
    """Make a stored file one whose storing began so many days ago; its id then, which says when that was."""
    old, new = ObjectId(file_id), new_file_id(db.now() - timedelta(days=days))
    entry = db.collection("fs.files").find_one({"_id": old})
    assert entry is not None
    db.collection("fs.files").insert_one({**entry, "_id": new})
    db.collection("fs.chunks").update_many({"files_id": old}, {"$set": {"files_id": new}})
    db.collection("fs.files").delete_one({"_id": old})
    return str(new)
