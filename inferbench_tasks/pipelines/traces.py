"""Whatever has a trace, by its id: a traced run, a training by its steps, a trace of another tool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.invocation import around, stage_spans
from inferbench_tasks.tracing.queries import about_run, spans_file
from inferbench_tasks.tracing.spans import Span
from inferbench_tasks.tracing.stored import find_imported, imported_rows, traced_runs
from inferbench_tasks.training import step_spans
from inferbench_tasks.training.result import TrainingResult

if TYPE_CHECKING:
    import pyarrow as pa

Origin = Literal["run", "training", "imported"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
#: How many traces a process keeps unpacked, and of how many bytes packed at most.
_KEPT, _KEPT_BYTES = 4, 8_000_000


@dataclass(frozen=True)
class StoredTrace:
    """``about``: what an export says of itself. ``table``: reads the spans. ``stages``: of a run, reads what is known
    of its invocation and stages. ``result``: of a run or a training; ``document``: of an imported trace.
    """

    id: str
    origin: Origin
    about: dict[str, str]
    table: Callable[[], pa.Table] = field(repr=False)
    result: ResultDocument | TrainingResult | None = None
    document: dict[str, Any] | None = None
    stages: Callable[[], list[Span]] = field(default=list, repr=False)

    def whole(self) -> pa.Table:
        """The spans as other tools get them: those of a run together with its invocation and stages."""
        return around(self.table(), self.stages())


def listed(db: PerfDB, limit: int, offset: int = 0, origin: Origin | None = None) -> list[dict[str, Any]]:
    """Those of all origins, or of one, the newest first; ``origin`` of each says what it is."""
    most = limit + offset
    listers: dict[Origin, Callable[[PerfDB, int], list[dict[str, Any]]]] = {
        "run": traced_runs,
        "training": step_spans.listed,
        "imported": imported_rows,
    }
    found = [row for kind in ([origin] if origin else ORIGINS) for row in listers[kind](db, most)]
    found.sort(key=lambda row: row["created_at"], reverse=True)
    return found[offset:most]


def find_trace(db: PerfDB, text: str) -> StoredTrace:
    """By an id or the unique start of one; InputError for what has no spans, with the reason."""
    if (kept := find_imported(db, text)) is not None:
        about = {"service.name": kept["name"], "inferbench.note": kept["note"]}
        return StoredTrace(kept["_id"], "imported", about, lambda: _spans(db, kept["file"]), document=kept)
    if (training := step_spans.find(db, text)) is not None:
        about = step_spans.about(training)
        return StoredTrace(training.run_id, "training", about, lambda: _steps(db, training), training)
    result = db.get_result(db.resolve_run(text))
    file = spans_file(result)
    return StoredTrace(
        result.run_id,
        "run",
        about_run(result),
        lambda: _spans(db, file),
        result,
        stages=lambda: _stages(db, result),
    )


def _stages(db: PerfDB, result: ResultDocument) -> list[Span]:
    """Nothing of a run that PerfDB has the result of alone."""
    try:
        run = db.get_run(result.run_id)
        return stage_spans(run, db.get_invocation(run.invocation_id))
    except InputError:
        return []


def _spans(db: PerfDB, file: dict[str, Any]) -> pa.Table:
    return _unpacked(file["id"], file["bytes"], lambda: stored_table(db, file))


def _steps(db: PerfDB, training: TrainingResult) -> pa.Table:
    file = training.samples
    if file is None:
        return step_spans.table(db, training)  # which says what is missing
    return _unpacked(file.id, file.bytes, lambda: step_spans.table(db, training))


#: By the id of their files, which never change; the one that was asked for last stands last.
_kept: dict[str, pa.Table] = {}
_lock = threading.Lock()


def _unpacked(file: str, size_bytes: int, read: Callable[[], pa.Table]) -> pa.Table:
    """The spans of a stored file; a page asks for the same ones several times in a row."""
    with _lock:
        table = _kept.pop(file, None)
    if table is None:
        table = read()
    if size_bytes <= _KEPT_BYTES:
        with _lock:
            _kept[file] = table
            while len(_kept) > _KEPT:
                del _kept[next(iter(_kept))]
    return table
