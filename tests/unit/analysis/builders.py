"""Runs for tests: real records with known figures, summarised by the real code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.submission.schema import JobSpec
from tests.samples import samples_table

SECOND = 1_000_000_000


def records(
    latency_ms: Any = 5.0, *, rate_rps: float = 200, seconds: float = 8, batch_size: int = 1,
    failed: int = 0, noise: float = 0.2, seed: int = 1, **columns: Any,
) -> pa.Table:  # fmt: skip
    """Requests at a constant rate, 2 s of warm-up first; latencies vary around ``latency_ms``."""
    rng = np.random.default_rng(seed)
    n = int(rate_rps * (seconds + 2))
    intended = (np.arange(n) / rate_rps * SECOND).astype(np.int64)
    latency = np.asarray(latency_ms) * np.exp(rng.normal(0, noise, n)) if noise else np.full(n, latency_ms)
    status = np.array(["ok"] * n, dtype=object)
    status[n - failed :] = "timeout"
    return samples_table(
        {
            "intended_ns": intended,
            "sent_ns": intended + 20_000,
            "first_byte_ns": intended + (latency * 1e6).astype(np.int64) - 1000,
            "done_ns": intended + (latency * 1e6).astype(np.int64),
            "status": status.tolist(),
            "batch_size": np.full(n, batch_size),
            "phase": ["warmup" if t < 2 * SECOND else "measure" for t in intended],
            **columns,
        }
    )


def view(
    table: pa.Table | None, run_id: str = "run.000", verdict: str = "valid", *, seconds: float = 8,
    cpu_cores: float | None = 0.5, resources: dict[str, Any] | None = None,
    job: dict[str, Any] | None = None, **changes: Any,
) -> RunView:  # fmt: skip
    """A run with these records (None: a run without figures)."""
    spec = job_spec(**(job or {}))
    summary: dict[str, Any] = {}
    if table is not None:
        summary = summarise(
            table, measure_start_ns=2 * SECOND, measure_end_ns=int((2 + seconds) * SECOND), slo=spec.slo
        )
        if cpu_cores is not None:
            usage = {"cpu_cores": {"mean": cpu_cores, "max": cpu_cores}, "rss_bytes": {"max": 2.0**27}}
            summary["resources"] = {"server": usage}
        if resources:
            summary["resources"] = resources
    document = ResultDocument.model_validate(
        {
            "run_id": run_id,
            "job_id": "job",
            "submission": {"name": spec.name},
            "model": {"name": "digits"},
            "format": "onnx",
            "backend": {"kind": "onnxruntime", "label": "ONNX Runtime"},
            "device": {"kind": "cpu", "name": "Example CPU"},
            "load": spec.traffic.model_dump(mode="json"),
            "summary": summary,
            "verdict": verdict,
            "certificate": {"valid": verdict == "valid", "reasons": [], "warnings": [], "checks": []},
            "provenance": {"job": spec.model_dump(mode="json")},
            "extensions": {
                "measured_window": {"start_ns": 2 * SECOND, "end_ns": int((2 + seconds) * SECOND)}
            },
            **changes,
        }
    )
    return RunView(
        run_id=run_id,
        job=spec.model_dump(mode="json"),
        verdict=Verdict.read(verdict),
        result=document,
        run=None,
        records=(lambda: table) if table is not None else None,
        label=run_id,
    )


def job_spec(**changes: Any) -> JobSpec:
    """A job; ``changes`` by dotted path (with __ for the dot)."""
    values: dict[str, Any] = {
        "name": "quickstart",
        "model": {"kind": "zoo", "name": "digits"},
        "load": {"arrivals": {"kind": "poisson", "rate_rps": 200.0}, "duration_s": 8.0},
        "slo": {"p99_ms": 20.0},
    }
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = values
        for part in parents:
            place = place.setdefault(part, {})
        place[last] = value
    return JobSpec.model_validate(values)


def named(*views: RunView) -> list[RunView]:
    """The runs, named by what differs."""
    runs = list(views)
    name_by_difference(runs)
    return runs
