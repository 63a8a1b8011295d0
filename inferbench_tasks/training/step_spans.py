"""The steps of a stored training as spans, as the trace store has those of requests: to be listed, found and exported.

They are made of the raw steps whenever they are asked for, so that nothing is stored twice and they go with their run.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.tracing.spans import PART, RANK, Span, table_of
from inferbench_tasks.training.result import TrainingResult

if TYPE_CHECKING:
    import pyarrow as pa

#: Where a result keeps what its clock was behind Unix time, ns; results from before have it not.
CLOCK: Final = "unix_minus_monotonic_ns"
ORIGIN: Final = "training"
_WITH_STEPS: Final = {"samples": {"$ne": None}, "summary": {"$ne": None}}
#: What of a result stands in a list: a thousand whole ones take seconds to read.
_OF_ROWS: Final = (
    "run_id", "attempt", "created_at", "model.name", "engine.kind", "samples.bytes", "summary.synchronised.steps",
    "summary.synchronised.warmup.steps", "summary.synchronised.last.steps",
)  # fmt: skip


def spans(
    run: str,
    rows: Sequence[Mapping[str, Any]],
    offset_ns: int = 0,
    ahead_ns: Mapping[int, int] = MappingProxyType({}),
) -> Iterator[Span]:
    """A trace for each step of the epochs that have stamps: the step over all ranks (application), within it each
    rank's step (model), within that its phases (framework). ``rows``: of the raw steps; ``offset_ns``: added to their
    times. ``ahead_ns``: of ranks of a second host, by rank, what the first host's clock is ahead of theirs.
    """
    steps: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("timing", "synchronised") == "synchronised":
            moved = _moved(row, ahead_ns.get(int(row["rank"]), 0))
            steps[int(row["round"]), int(row["step"])].append(moved)
    for (round_, step), of_ranks in steps.items():
        trace = hashlib.sha256(f"{run}\n{round_}\n{step}".encode()).hexdigest()[:32]
        start_ns = min(row["step_start_ns"] for row in of_ranks)
        end_ns = max(row["step_start_ns"] + row["step_ns"] for row in of_ranks)
        samples = sum(int(row["samples"]) for row in of_ranks)
        about = {"round": round_, PART: of_ranks[0]["part"], "samples": samples}
        whole = start_ns + offset_ns, end_ns - start_ns
        yield Span(trace, 0, -1, "application", f"step {step}", *whole, attributes=about)
        number = 1
        for row in sorted(of_ranks, key=lambda of: int(of["rank"])):
            parent = number
            times = row["step_start_ns"] + offset_ns, row["step_ns"]
            yield Span(
                trace, parent, 0, "model", f"rank {row['rank']}", *times, attributes={RANK: int(row["rank"])}
            )
            number += 1
            for phase in (name.removesuffix("_start_ns") for name in row if name.endswith("_start_ns")):
                if phase == "step" or row[f"{phase}_start_ns"] is None:
                    continue
                times = row[f"{phase}_start_ns"] + offset_ns, row[f"{phase}_wall_ns"]
                clocks = {
                    f"{of}_ms": row[f"{phase}_{of}_ns"] / 1e6
                    for of in ("cpu", "wait", "own_cpu", "own_wait")
                    if row.get(f"{phase}_{of}_ns") is not None
                }
                yield Span(trace, number, parent, "framework", phase, *times, attributes=clocks)
                number += 1


def _moved(row: Mapping[str, Any], by_ns: int) -> Mapping[str, Any]:
    """A step with its moments by another clock."""
    if not by_ns:
        return row
    moments = {
        name: value + by_ns for name, value in row.items() if name.endswith("_start_ns") and value is not None
    }
    return {**row, **moments}


def ahead_of(result: TrainingResult) -> dict[int, int]:
    """Rank of a second host -> what the first host's clock is ahead of its; InputError where nobody can tell."""
    hosts = result.extensions.get("hosts") or []
    if len(hosts) < 2:
        return {}
    clock = result.extensions.get("hosts_clock") or {}
    if clock.get("ahead_ns") is None:
        raise InputError(
            f"the steps of {result.run_id} are of two hosts and can't be set beside each other: "
            f"{clock.get('reason') or 'how their clocks lie was not kept'}",
            field="RUN",
        )
    return {int(rank): int(clock["ahead_ns"]) for rank in hosts[1]["ranks"]}


def table(db: PerfDB, result: TrainingResult) -> pa.Table:
    """The spans of a stored training as the trace store has them; InputError of a run without raw steps."""
    import pyarrow
    import pyarrow.parquet

    if result.samples is None:
        raise InputError(f"{result.run_id} has no raw steps, and so no spans", field="RUN")
    raw = pyarrow.parquet.read_table(pyarrow.BufferReader(db.files.get(result.samples)))
    return table_of(spans(result.run_id, raw.to_pylist(), offset_ns(result) or 0, ahead_of(result)))


def offset_ns(result: TrainingResult) -> int | None:
    """What its times are behind Unix time; None where that was not kept."""
    kept = (result.extensions.get("measured_window") or {}).get(CLOCK)
    return None if kept is None else int(kept)


def about(result: TrainingResult) -> dict[str, str]:
    """What an exported file says of itself."""
    clock = "CLOCK_MONOTONIC of the host" if offset_ns(result) is None else "Unix time"
    if error_ns := (result.extensions.get("hosts_clock") or {}).get("error_ns"):
        clock += (
            f" of the first host; that of the second lies within {error_ns / 1e6:.3f} ms of where it is put"
        )
    return {
        "inferbench.run": result.run_id,
        "inferbench.verdict": str(result.verdict),
        "inferbench.clock": clock,
    }


def find(db: PerfDB, run: str) -> TrainingResult | None:
    """The training of that id, or the unique start of one: its last attempt that has raw steps, else its last one.
    None where the run is none.
    """
    own = {"run_id": db.resolve_run(run)}
    for where in ({**own, **_WITH_STEPS}, own):
        if last := db.results_of(TrainingResult, where, sort=(("attempt", -1),), limit=1):
            return last[0]
    return None


def listed(db: PerfDB, limit: int = 0, before: datetime | None = None) -> list[dict[str, Any]]:
    """A row for each training with raw steps, as the trace store's list has them, the newest first; of a run with
    several attempts the last one, which is what ``find`` gives.
    """
    where: dict[str, Any] = dict(_WITH_STEPS)
    if before is not None:
        where["created_at"] = {"$lt": before}
    newest: dict[str, dict[str, Any]] = {}
    skip = 0
    while not limit or len(newest) < limit:
        found = db.find_raw(
            where, limit=limit, skip=skip, fields=_OF_ROWS, collection=TrainingResult.collection
        )
        skip += len(found)
        for result in map(to_plain, found):
            known = newest.get(result["run_id"])
            if known is None or known["attempt"] < result["attempt"]:
                newest[result["run_id"]] = result
        if not limit or len(found) < limit:
            break
    return [_row(result) for result in list(newest.values())[: limit or None]]


def _row(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": raw["run_id"],
        "origin": ORIGIN,
        "created_at": raw["created_at"],
        "model": (raw.get("model") or {}).get("name"),
        "backend": (raw.get("engine") or {}).get("kind"),
        "requests": _traces(raw["summary"].get("synchronised") or {}),
        "spans": None,
        "levels": "application, model, framework",
        "defects": None,
        "bytes": raw["samples"]["bytes"],
        "problem": "",
    }


def _traces(timing: Mapping[str, Any]) -> int:
    """The steps that ``spans`` makes a trace of each: those of the warm-up and the last ones, too."""
    parts = (timing, *(timing.get(part) or {} for part in ("warmup", "last")))
    return sum(int(part.get("steps") or 0) for part in parts)
