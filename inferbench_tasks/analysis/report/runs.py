"""The runs of one invocation as a report sees them: results, and what there is of those without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from inferbench_tasks.analysis.labels import name_by_difference
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import samples_per_request
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass
class RunView:
    """One run. ``label`` names it by what differs from the other runs; ``job`` is its spec as plain values."""

    run_id: str
    job: dict[str, Any]
    #: None of a run that has none yet.
    verdict: Verdict | None
    result: ResultDocument | None
    run: RunDocument | None
    #: Reads its raw records; None if it has none.
    records: Callable[[], pa.Table] | None = None
    #: Reads what was answered to each sample of ``evaluate``; None if nothing was.
    answers: Callable[[], pa.Table] | None = None
    #: Reads the spans of ``trace``; None if there are none.
    spans: Callable[[], pa.Table] | None = None
    label: str = ""
    differs: dict[str, Any] | None = None

    @property
    def valid(self) -> bool:
        """Whether its figures count."""
        return self.verdict is not None and self.verdict.valid

    @property
    def bounds_only(self) -> bool:
        """Whether its figures are no more than bounds: the machine was disturbed while they were measured."""
        return self.verdict is not None and self.verdict.bounds_only

    @property
    def state(self) -> str:
        """The kind of its verdict; how its execution stands where it has none."""
        if self.verdict is not None:
            return self.verdict.kind
        return self.run.status if self.run else "unknown"

    @property
    def said(self) -> str:
        """Its verdict in words, reasons included; its ``state`` where it has none."""
        return str(self.verdict) if self.verdict else self.state

    @property
    def said_with_load(self) -> str:
        """The verdict in words, and whether the load was to be too much: its latencies depend on its length then."""
        return f"{self.said} (overload was asked for)" if self._expects_overload else self.said

    @property
    def _expects_overload(self) -> bool:
        return bool(self.result and (self.result.certificate or {}).get("figures", {}).get("expect"))

    @property
    def measured(self) -> bool:
        """Whether there are figures at all, valid or not."""
        return self.records is not None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures as plain values; {} without a result."""
        return self.result.summary.model_dump() if self.result else {}

    @property
    def evaluation(self) -> dict[str, Any]:
        """What ``evaluate`` found, see ``stages.answers_judged``; {} without that block."""
        found: dict[str, Any] = (self.result.extensions.get("evaluation") or {}) if self.result else {}
        return found

    @property
    def trace(self) -> dict[str, Any]:
        """What ``trace`` found, see ``stages.trace``; {} without that block."""
        found: dict[str, Any] = (self.result.extensions.get("trace") or {}) if self.result else {}
        return found

    @cached_property
    def problem(self) -> str | None:
        """Why its raw records can't be read, None if they can."""
        try:
            return None if self.latencies_ms is not None else "it has no raw records"
        except (InputError, PerfDBError) as error:
            return str(error)

    @cached_property
    def latencies_ms(self) -> NDArray[np.float64] | None:
        """End-to-end latencies of the good answers in the measured window, ascending."""
        import numpy as np

        if self.records is None or self.result is None:
            return None
        window = self.result.extensions["measured_window"]
        records = Window.of(self.records(), window["start_ns"], window["end_ns"])
        latencies: NDArray[np.float64] = np.sort(
            (records.done_ns - records.intended_ns)[records.answered] / 1e6
        )
        return latencies

    @property
    def samples_per_request(self) -> float | None:
        """As measured, so that it holds for every kind of arrivals; None where nothing was answered."""
        return samples_per_request(self.summary)

    def value(self, figure: Figure) -> float | None:
        """A figure of the table; of a result from before it was stored, as it follows from the others."""
        return figure.value(self.summary)

    def figure(self, path: str) -> Any:
        """What stands at a dotted path of the summary, None if nothing does."""
        return value_at(self.summary, path)


def load_runs(db: PerfDB, run_ids: Sequence[str]) -> list[RunView]:
    """The runs in that order; those that never started are left out."""
    ids = list(run_ids)
    results: dict[str, ResultDocument] = {}
    for document in db.find_results({"run_id": {"$in": ids}}):
        newest = results.get(document.run_id)
        if newest is None or newest.attempt < document.attempt:
            results[document.run_id] = document
    runs = {run.run_id: run for run in db.find_runs({"_id": {"$in": ids}})}
    views = []
    for run_id in ids:
        result, run = results.get(run_id), runs.get(run_id)
        if result is None and run is None:
            continue
        job = run.job if run else (result.provenance.model_dump().get("job") if result else None) or {}
        verdict = result.verdict if result else run.verdict if run else None
        records = partial(db.samples, run_id, result.attempt) if result and result.samples else None
        evaluation = result.extensions.get("evaluation") if result else None
        answers = partial(stored_table, db, evaluation["answers"]) if evaluation else None
        file = (result.extensions.get("trace") or {}).get("file") if result else None
        spans = partial(stored_table, db, file) if file else None
        views.append(RunView(run_id, job, verdict, result, run, records, answers, spans))
    name_by_difference(views)
    return views


def stored_table(db: PerfDB, stored: dict[str, Any]) -> pa.Table:
    """A Parquet file of PerfDB, by what the result says of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(pa.BufferReader(db.files.get(Attachment.model_validate(stored)))) as file:
        return file.read()


def blocks_beside(db: PerfDB, views: Sequence[RunView]) -> list[RunView]:
    """The other runs of the interleaved sweep whose blocks these runs are of; [] where they are of none."""
    invocations = {view.run_id.rpartition(".")[0] for view in views if view.job.get("block")}
    if len(invocations) != 1:
        return []
    runs = db.get_invocation(invocations.pop()).run_ids
    return load_runs(db, [run_id for run_id in runs if run_id not in {view.run_id for view in views}])
