"""Recorded traces from files: CSV, Parquet, JSON lines, or a scheduler's own event log.

Columns (times in seconds; a cell may be empty where a default is given):

| column | what | default |
|---|---|---|
| submit_s | when it was submitted | required |
| duration_s | how long it ran | required |
| est_s | what was believed before | duration_s |
| job_id tenant spec_hash | names | row number, "team", job_id |
| device_types | with `|` between them | all of the cluster |
| n_devices priority | whole numbers | 1, 0 |
| deadline_s | when its results are wanted, on the clock of submit_s | none |
| limit_s | how long it may run | none |
| preemptible | true or false | false |

Of an event log the jobs that ended well are taken, with the time from their last start to their end, and the cluster
with its outages as the log has them.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts import parquet_files
from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.eventlog import LOG, read_log
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.trace import Trace, TraceJob

#: Of a file, and of what it is in memory before its rows are made into jobs.
MAX_BYTES = 256 * 2**20
MAX_ROWS = 2_000_000
REQUIRED = ("submit_s", "duration_s")
COLUMNS = (
    *REQUIRED,
    "est_s",
    "job_id",
    "tenant",
    "spec_hash",
    "device_types",
    "n_devices",
    "priority",
    "deadline_s",
    "limit_s",
    "preemptible",
)


def read_trace(path: Path, nodes: tuple[ev.NodeUp, ...]) -> Trace:
    """The jobs of a file on these nodes (an event log brings its own). Raises InputError with the row."""
    if path.suffix not in (".csv", ".parquet", ".jsonl"):
        raise InputError(f"{path}: a trace is a .csv, .parquet or .jsonl file")
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > MAX_BYTES):
            raise InputError(f"{path}: a trace is a file of at most {MAX_BYTES:,} bytes")
        if path.suffix == ".jsonl" and is_event_log(path):
            return _from_log(path)
        rows = _rows(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    if not rows:
        raise InputError(f"{path} has no rows")
    missing = [name for name in REQUIRED if name not in rows[0]]
    unknown = [name for name in rows[0] if name not in COLUMNS]
    if missing or unknown:
        raise InputError(f"{path}: missing columns {missing}, unknown {unknown}; known: {', '.join(COLUMNS)}")
    everything = frozenset(node.device_type for node in nodes)
    jobs = []
    for number, row in enumerate(rows, start=1):
        try:
            jobs.append(_job(number, {k: v for k, v in row.items() if v is not None and v != ""}, everything))
        except (InputError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}, row {number}: {error!s}") from error
    return _trace(path.name, jobs, nodes)


def is_event_log(path: Path) -> bool:
    """Whether its first line begins a scheduler's log; OSError or UnicodeDecodeError where it has none to read."""
    with open(path, encoding="utf-8") as file:
        return f'"{LOG}"' in file.readline()


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.csv

    if path.suffix == ".jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_ROWS:
            raise InputError(f"{path} has {len(lines):,} lines; a trace has at most {MAX_ROWS:,}")
        try:
            rows = [json.loads(line) for line in lines if line.strip()]
        except ValueError as error:
            raise InputError(f"{path} is not JSON lines: {error}") from error
        if not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{path}: every line must be an object")
        names = dict.fromkeys(name for row in rows for name in row)
        if unknown := [name for name in names if name not in COLUMNS]:
            raise InputError(f"{path}: unknown columns {unknown[:5]}; known: {', '.join(COLUMNS)}")
        return [{name: row.get(name) for name in names} for row in rows]
    try:
        table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else parquet_files.read(path, MAX_BYTES)
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{path} is not {path.suffix[1:].upper()}: {error}") from error
    if table.num_rows > MAX_ROWS:
        raise InputError(f"{path} has {table.num_rows:,} rows; a trace has at most {MAX_ROWS:,}")
    records: list[dict[str, Any]] = table.to_pylist()
    return records


def _job(number: int, row: dict[str, Any], everything: frozenset[str]) -> TraceJob:
    job_id = str(row.get("job_id", f"row-{number:07d}"))
    types = row.get("device_types")
    names = types.split("|") if isinstance(types, str) else types
    preemptible = str(row.get("preemptible", False)).lower()
    if preemptible not in ("true", "false"):
        raise InputError(f"preemptible must be true or false, not {preemptible!r}")
    if "deadline_s" in row and float(row["deadline_s"]) <= float(row["submit_s"]):
        raise InputError(
            f"deadline_s {row['deadline_s']} is not after submit_s {row['submit_s']}: it is a moment of the trace, and "
            "not how long after its submission"
        )
    spec = QueuedJob(
        job_id,
        str(row.get("tenant", "team")),
        str(row.get("spec_hash", job_id)),
        float(row["submit_s"]),
        float(row.get("est_s", row["duration_s"])),
        float(row.get("limit_s", math.inf)),
        frozenset(map(str, names)) if names else everything,
        n_devices=int(row.get("n_devices", 1)),
        priority=int(row.get("priority", 0)),
        deadline_s=float(row["deadline_s"]) if "deadline_s" in row else None,
        preemptible=preemptible == "true",
    )
    return TraceJob(spec, float(row["duration_s"]))


def _from_log(path: Path) -> Trace:
    specs: dict[str, QueuedJob] = {}
    started: dict[str, float] = {}
    jobs: list[TraceJob] = []
    nodes: dict[str, ev.NodeUp] = {}
    sizes: dict[str, int] = {}
    outages: list[ev.NodeUp | ev.NodeDown] = []
    for event in read_log(path).events:
        if isinstance(event, ev.Submitted):
            specs[event.job.job_id] = replace(event.job, attempt=0)
        elif isinstance(event, (ev.LeaseGranted, ev.Started)):
            started[event.job_id] = event.at_s
        elif isinstance(event, ev.Finished) and event.ok and event.at_s > started.get(event.job_id, math.inf):
            jobs.append(TraceJob(specs[event.job_id], event.at_s - started[event.job_id]))
        elif isinstance(event, ev.NodeUp):
            if event.node_id in nodes:
                outages.append(event)
            # A host's workers come one after the other: it has all its devices from the beginning here.
            sizes[event.node_id] = max(event.n_devices, sizes.get(event.node_id, 0))
            nodes.setdefault(event.node_id, event)
        elif isinstance(event, ev.NodeDown):
            outages.append(event)
    if not jobs or not nodes:
        raise InputError(f"{path}: the log has no job that ended well, or no node")
    whole = [replace(e, n_devices=sizes[e.node_id]) if isinstance(e, ev.NodeUp) else e for e in outages]
    hosts = tuple(replace(node, n_devices=sizes[node.node_id]) for node in nodes.values())
    return replace(_trace(path.name, jobs, hosts), outages=tuple(whole))


def _trace(name: str, jobs: list[TraceJob], nodes: tuple[ev.NodeUp, ...]) -> Trace:
    ids = [job.spec.job_id for job in jobs]
    if len(set(ids)) < len(ids):
        raise InputError(f"{name}: two jobs have the same job_id")
    for job in jobs:
        fitting = [node for node in nodes if node.device_type in job.spec.device_types]
        if not any(node.n_devices >= job.spec.n_devices for node in fitting):
            raise InputError(
                f"{name}: job {job.spec.job_id!r} needs {job.spec.n_devices} device(s) of "
                f"{sorted(job.spec.device_types)} on one node; no node has them (--devices)"
            )
    return Trace(name, tuple(sorted(jobs, key=lambda j: (j.spec.submit_s, j.spec.job_id))), nodes)
