"""Service times of one model at some batch sizes: measured here where they are missing, or from what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.brick_jobs.answer import answer
from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.brick_jobs.predict import Progress, measure
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.stored import answered_all
from inferbench_tasks.brick_jobs.under_load.services import Services, spread_of

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.inside.decompose import Output
    from inferbench_tasks.bricks.measure.method import Method
    from inferbench_tasks.bricks.results import Result
    from inferbench_tasks.contracts.handles import TensorSpec
    from inferbench_tasks.perfdb.store import PerfDB

#: What makes the missing known, whatever is missing.
COMMAND = "`inferbench bricks predict FILE.yaml` on that machine measures what is missing, and keeps it"


@dataclass(frozen=True)
class Timed:
    """``rows``: batch size -> its prediction, as ``bricks predict MODEL`` has it; ``inputs``, ``outputs``: of the model
    that is served."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    rows: Mapping[int, Mapping[str, Any]]
    runs: Mapping[str, Result]
    cut: CutModel
    disturbed: str | None = None

    @property
    def coverage_ratio(self) -> float:
        """The least of its sizes."""
        return min(float(row["coverage_ratio"] or 0.0) for row in self.rows.values())

    def why_none(self) -> str | None:
        """Why there is no prediction at some size; None where all have one."""
        for size, row in sorted(self.rows.items()):
            if row["predicted_ms"] is None:
                return row.get("why") or (
                    f"{row['missing']} of {row['unique']} unique bricks have no time on {row['device']} at batch {size}"
                )
        return None

    def services(self) -> Services:
        """Its times, where all sizes have one."""
        return Services(
            {size: row["predicted_ms"] * 1e6 for size, row in self.rows.items()},
            {
                size: tuple(bound * 1e6 for bound in row["predicted_interval_ms"])
                for size, row in self.rows.items()
            },
            spread_of(self.cut.parts, self.runs),
        )


def timed_here(
    one: Output,
    results: PerfDBResults,
    method: Method,
    calibrate_on: int,
    constructor: str,
    folder: Path,
    tell: Progress,
) -> Timed:
    """What was cut; what is missing of it is timed on this machine, in one session, and kept."""
    results.put_cuts(one.cuts, one.facts)
    measured = measure(one.missing, results, method, folder, tell)
    wanted = Wanted(method=method)
    times = {**results.get_many(one.known, wanted), **measured.fresh}
    rows = {cut.batch_size: answer(results, cut, times, calibrate_on, constructor) for cut in one.cuts}
    cut = min(one.cuts, key=lambda cut: cut.batch_size)
    runs = {**runs_of(results, set(cut.parts) - measured.fresh.keys(), wanted), **measured.fresh}
    return Timed(one.model.inputs, one.model.outputs, rows, runs, cut, measured.disturbed)


def timed_stored(
    db: PerfDB, one: Output, processor: str, threads: int, calibrate_on: int, constructor: str
) -> Timed:
    """From what is stored at one setting of a device. InputError where nothing of this model can be said there."""
    results, rows = answered_all(db, one.cuts, processor, threads, calibrate_on, constructor)
    cut = min(one.cuts, key=lambda cut: cut.batch_size)
    return Timed(one.model.inputs, one.model.outputs, rows, runs_of(results, cut.parts), cut)


def runs_of(results: PerfDBResults, parts: Iterable[str], wanted: Wanted | None = None) -> dict[str, Result]:
    """The results of these bricks that are used, with their single runs."""
    found = ((part, results.get(part, wanted)) for part in dict.fromkeys(parts))
    return {part: one for part, one in found if one is not None}
