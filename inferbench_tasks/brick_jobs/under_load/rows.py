"""All that is said of one job: what it is predicted from, and the figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.brick_jobs.under_load.overhead import Overhead, bytes_of
from inferbench_tasks.brick_jobs.under_load.predicted import Told, predicted
from inferbench_tasks.brick_jobs.under_load.services import ALIKE
from inferbench_tasks.brick_jobs.under_load.timed import COMMAND, Timed
from inferbench_tasks.submission.schema import JobSpec

#: How the state of a row begins that lacks a measurement, and of one for which there was no time.
NONE, NO_TIME = "no prediction: ", "not predicted: time"


def facts_of(timed: Timed, overhead: Overhead) -> dict[str, Any]:
    """What is known of a job before its load is simulated: what it is predicted from (``origins`` by batch size); with
    a ``state`` where there is no prediction whatever is simulated, for a time is missing."""
    any_row = next(iter(timed.rows.values()))
    why = timed.why_none() or _other_runtime(any_row["runtime"], overhead)
    hosts = sorted({host for row in timed.rows.values() for host in row.get("timed_on", ())})
    return {
        "warning": _least_measured(timed),
        "coverage_ratio": timed.coverage_ratio,
        "model": timed.cut.name,
        "device": any_row["device"],
        "runtime": any_row["runtime"],
        "view": timed.cut.view,
        "disturbed": [why for why in (timed.disturbed, overhead.disturbed) if why],
        "overhead": _told(overhead),
        "capacity_rps": None,
        **({"timed_on": hosts} if hosts else {}),
        "origins": {str(size): row.get("origins", []) for size, row in sorted(timed.rows.items())},
        **({"state": f"{NONE}{why}; {COMMAND}"} if why else {}),
    }


def _least_measured(timed: Timed) -> str | None:
    """The warning of the batch size of which the least is measured, which is named; None without any."""
    warned = [
        (row["coverage_ratio"], size, row["warning"])
        for size, row in timed.rows.items()
        if row.get("warning")
    ]
    if not warned:
        return None
    _, size, warning = min(warned)
    return f"at batch {size} {warning}"


def none_of(why: str) -> dict[str, Any]:
    """The row of a job of which nothing can be said."""
    none: dict[str, Any] = {"warning": None, "coverage_ratio": None, "disturbed": [], "capacity_rps": None}
    return {**none, "state": f"{NONE}{why}"}


def row_of(
    job: JobSpec, timed: Timed, overhead: Overhead, base_dir: Path, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Coverage and ``warning`` first; ``state`` says why there are no figures where there are none.

    ``shapes``: of inputs with free sizes. InputError where nothing is said of its requests' size.
    """
    row = facts_of(timed, overhead)
    if "state" in row:
        return row
    rows = job.traffic.samples_per_request
    wire_bytes = bytes_of(timed.inputs, rows, shapes) + bytes_of(timed.outputs, rows, shapes)
    added = overhead.at(wire_bytes)
    services = timed.services()
    told = Told(job, job.traffic.arrivals.bind(base_dir), services, added)
    return row | {
        "calibrated": all(one["calibrated_by"] for one in timed.rows.values()),
        "judged": all(one["judged_by"] for one in timed.rows.values()),
        "wire_bytes": wire_bytes,
        "service_ms": {str(size): ns / 1e6 for size, ns in sorted(services.ns.items())},
        "runs_known": services.spread != ALIKE,
        "added_front_ms": added.front_ns / 1e6,
        "added_batch_ms": added.batch_ns / 1e6,
        "added_rest_ms": added.rest_ns.mean / 1e6,
        **predicted(told),
    }


def _other_runtime(runtime: str, overhead: Overhead) -> str | None:
    """Why times of bricks and of the server do not make one figure."""
    other = overhead.conditions.runtime
    if other == runtime:
        return None
    return f"what the server adds was measured with {other}, the bricks with {runtime}"


def _told(overhead: Overhead) -> Mapping[str, Any]:
    return {
        "conditions": overhead.conditions.model_dump(),
        "runs": list(overhead.runs),
        "measured_at": overhead.measured_at.isoformat(),
    }
