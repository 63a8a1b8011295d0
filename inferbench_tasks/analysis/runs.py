"""The runs of one invocation as a report sees them: results, and what there is of those without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument
from inferbench_tasks.perfdb.store import PerfDB

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

#: Fields of a job that tell nothing about what was measured.
_LABELS = ("name", "user", "description", "tags", "priority", "expected_duration_s", "deadline_s", "sweep")


@dataclass
class RunView:
    """One run. ``label`` names it by what differs from the other runs; ``job`` is its spec as plain values."""

    run_id: str
    job: dict[str, Any]
    verdict: str
    result: ResultDocument | None
    run: RunDocument | None
    #: Reads its raw records; None if it has none.
    records: Callable[[], pa.Table] | None = None
    label: str = ""
    differs: dict[str, Any] | None = None

    @property
    def valid(self) -> bool:
        """Whether its figures count."""
        return self.verdict == "valid"

    @property
    def measured(self) -> bool:
        """Whether there are figures at all, valid or not."""
        return self.records is not None

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures as plain values; {} without a result."""
        return self.result.summary.model_dump() if self.result else {}

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
        found: NDArray[np.float64] = np.sort((records.done_ns - records.intended_ns)[records.answered] / 1e6)
        return found

    def figure(self, path: str) -> Any:
        """A figure of the summary by dotted path, None if it is not there."""
        value: Any = self.summary
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value


def load_runs(db: PerfDB, run_ids: Sequence[str]) -> list[RunView]:
    """The runs in that order; those that never started are left out."""
    ids = list(run_ids)
    results: dict[str, ResultDocument] = {}
    for found in db.find_results({"run_id": {"$in": ids}}):
        known = results.get(found.run_id)
        if known is None or known.attempt < found.attempt:
            results[found.run_id] = found
    runs = {run.run_id: run for run in db.find_runs({"_id": {"$in": ids}})}
    views = []
    for run_id in ids:
        result, run = results.get(run_id), runs.get(run_id)
        if result is None and run is None:
            continue
        job = run.job if run else (result.provenance.model_dump().get("job") if result else None) or {}
        verdict = result.verdict if result else (run.verdict or run.status) if run else "unknown"
        records = partial(db.samples, run_id, result.attempt) if result and result.samples else None
        views.append(RunView(run_id, job, verdict, result, run, records))
    name_by_difference(views)
    return views


def name_by_difference(views: list[RunView]) -> None:
    """Label each run by the fields of its job that differ between the runs, shortest names that are unique."""
    flat = [flatten({k: v for k, v in view.job.items() if k not in _LABELS}) for view in views]
    paths = list(dict.fromkeys(path for job in flat for path in job))
    differing = [path for path in paths if len({repr(job.get(path)) for job in flat}) > 1]
    # What jobs of other kinds have, always with the same value, tells nobody anything, if the rest suffices.
    telling = [path for path in differing if len({repr(job[path]) for job in flat if path in job}) > 1]
    named = [path for path in differing if path in telling or path in _LEADERS]
    labels = _labels(flat, _without_echoes(flat, named))
    if "" in labels or len(set(labels)) < len(labels):
        labels = _labels(flat, [p for p in paths if p in differing or any(p not in job for job in flat)])
    for view, job, label in zip(views, flat, labels, strict=True):
        view.differs = {path: job.get(path) for path in differing}
        view.label = label or str(view.job.get("name", view.run_id))
    seen: dict[str, int] = {}
    for view in views:
        seen[view.label] = seen.get(view.label, 0) + 1
    for view in views:
        if seen[view.label] > 1:
            view.label = f"{view.label} ({view.run_id.rpartition('.')[2]})"


#: Settings that name a thing; others go with them.
_LEADERS = ("serve.backend", "model.name", "model.family")


def _without_echoes(jobs: list[dict[str, Any]], paths: list[str]) -> list[str]:
    """Without what only follows: a backend's format, and parts of a model that change with its name or family."""

    def classes(path: str) -> list[int]:
        seen: dict[str, int] = {}
        return [seen.setdefault(repr(job.get(path)), len(seen)) for job in jobs]

    led = {path: classes(path) for path in _LEADERS if path in paths}
    models = [found for path, found in led.items() if path.startswith("model.")]
    return [
        path
        for path in paths
        if path in led
        or (
            not (path.startswith("model.") and classes(path) in models)
            and not (path == "convert.format" and classes(path) == led.get("serve.backend"))
        )
    ]


def _labels(jobs: list[dict[str, Any]], paths: list[str]) -> list[str]:
    """Each job's own values of these paths; what a job doesn't have is left out."""
    short = short_names(paths)
    return [", ".join(f"{short[path]} {plain(job[path])}" for path in paths if path in job) for job in jobs]


def flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as dotted paths."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found |= flatten(item, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = item
    return found


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """The shortest end of each path that no other path shares, from its last part up."""
    found = {}
    for path in paths:
        parts = path.split(".")
        for length in range(1, len(parts) + 1):
            end = ".".join(parts[-length:])
            if sum(other == end or other.endswith("." + end) for other in paths) == 1:
                break
        # "kind" alone says nothing.
        found[path] = ".".join(parts[-2:]) if end == "kind" and len(parts) > 1 else end
    return found


def plain(value: Any) -> str:
    """A setting as a person writes it."""
    if value is None or value in ([], ()):
        return "none"
    if isinstance(value, (list, tuple)) and any(isinstance(item, dict) and "model" in item for item in value):
        models = [item["model"] for item in value]
        return " + ".join(str(m.get("name") or m.get("family") or m.get("path")) for m in models)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
