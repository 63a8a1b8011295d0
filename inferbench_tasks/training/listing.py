"""Lists of trainings: a line for each result, which of them, in which order; two of them beside each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import BY_RUN, NEWEST_FIRST, PerfDB
from inferbench_tasks.training.jade import COLUMNS as JADE
from inferbench_tasks.training.report.views import PHASES
from inferbench_tasks.training.result import TrainingResult

if TYPE_CHECKING:
    from inferbench_tasks.training.comparison import Comparison

#: What a list is narrowed by -> where a result has it.
FILTERS = {
    "submission": "submission.name",
    "benchmark": "benchmark",
    "model": "model.name",
    "data": "data.kind",
    "device": "device.name",
    "cluster": "cluster",
}
#: What a list is sorted by -> where a result has it; but for the time, of valid runs only.
SORTS = {
    "created": "created_at",
    "samples_per_s": "summary.bare.samples_per_s",
    "step_ms": "summary.synchronised.step_ms.mean",
    **{f"{name}_ms": f"summary.synchronised.phases.{name}.wall_ms.mean" for name in PHASES},
    "events_step_ms": "summary.events.step_ms.mean",
    **{f"events_{name}_ms": f"summary.events.phases.{name}.device_ms" for name in PHASES},
    **{f"jade_{name}_ms": f"summary.jade.columns.{name}" for name in JADE},
    "jade_step_ms": "summary.jade.step_s",
}
COLUMNS = (
    "run", "created", "submission", "benchmark", "model", "data", "where", "processes", "workers", "samples_per_s",
    "step_ms", *(f"{name}_ms" for name in PHASES), "explained_ratio", "events_step_ms",
    *(f"events_{name}_ms" for name in PHASES),
    *(f"jade_{name}_ms" for name in JADE), "jade_step_ms", "device", "cluster", "verdict",
)  # fmt: skip


def listed(
    db: PerfDB, filters: Mapping[str, str], sort: str = "", limit: int = 0, skip: int = 0
) -> list[TrainingResult]:
    """Results that have all of these values, the newest first, or by ``sort`` (``-`` before it: the largest first).

    Sorted by a figure the valid ones that have it: others' figures are no place in an order. Equal ones are in one
    order on all pages, the newest first, and those of one moment by their runs. InputError for a name that is none.
    """
    where: dict[str, Any] = {}
    for name, value in filters.items():
        if name not in FILTERS:
            raise InputError(f"trainings are narrowed by {', '.join(FILTERS)}; got {name!r}", field=name)
        if value:
            where[FILTERS[name]] = value
    name = sort.removeprefix("-")
    if not name:
        return db.results_of(TrainingResult, where, (*NEWEST_FIRST, *BY_RUN), limit, skip)
    if name not in SORTS:
        raise InputError(
            f"trainings are sorted by {', '.join(SORTS)}, with - for the largest first; got {sort!r}",
            field="sort",
        )
    if name != "created":
        where |= {"verdict": "valid", SORTS[name]: {"$ne": None}}
    own = SORTS[name], -1 if sort.startswith("-") else 1
    # Of a path that stands there twice MongoDB's driver takes the last direction.
    order = (own, *(other for other in (*NEWEST_FIRST, *BY_RUN) if other[0] != own[0]))
    return db.results_of(TrainingResult, where, order, limit, skip)


def figures(result: TrainingResult) -> dict[str, Any]:
    """Samples/s without instruments, the step, and its phases, ms; nothing of a run that has none."""
    if result.summary is None:
        return {}
    timing, bare = result.summary.synchronised, result.summary.bare
    step = timing["step_ms"]
    return {
        "samples_per_s": bare["samples_per_s"],
        "step_ms": step["mean"] if step else None,
        **{f"{name}_ms": phase["wall_ms"]["mean"] for name, phase in (timing["phases"] or {}).items()},
        "explained_ratio": timing["explained_ratio"],
    }


def row(result: TrainingResult) -> dict[str, Any]:
    """A line of the list; times are means, ms, ``samples_per_s`` of epochs without instruments."""
    engine, model = result.engine, result.model
    jade = result.summary.jade if result.summary else None
    events = result.summary.events if result.summary else None
    columns = (jade or {}).get("columns") or {}
    of_events = (events or {}).get("phases") or {}
    return {
        "run": result.run_id,
        "created": result.created_at,
        "submission": result.submission.name,
        "benchmark": result.benchmark,
        "model": model.name if model else None,
        "data": result.data.get("kind"),
        "where": result.data.get("where"),
        "processes": engine.processes if engine else None,
        "workers": result.workers,
        **figures(result),
        "events_step_ms": events["step_ms"]["mean"] if events and events["step_ms"] else None,
        **{
            f"events_{name}_ms": of_events[name]["device_ms"] if name in of_events else None
            for name in PHASES
        },
        **{f"jade_{name}_ms": 1e3 * columns[name] if name in columns else None for name in JADE},
        "jade_step_ms": jade["step_s"] * 1e3 if jade and jade["step_s"] is not None else None,
        "device": result.device.name or result.device.kind if result.device else None,
        "cluster": result.cluster,
        "verdict": str(result.verdict),
    }


def result_of(db: PerfDB, run: str, attempt: int | None = None) -> TrainingResult:
    """The last attempt's result of a run, or that of one attempt.

    ``run``: its id, the unique start of one, or ``latest``. InputError where there is none.
    """
    run_id = db.resolve_run(run)
    where = {"run_id": run_id} | ({"attempt": attempt} if attempt else {})
    results = db.results_of(TrainingResult, where, sort=(("attempt", -1),), limit=1)
    if not results:
        of = f", attempt {attempt}" if attempt else ""
        raise InputError(
            f"PerfDB has no result of a training run {run_id!r}{of}; `inferbench training list` shows them."
        )
    return results[0]


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A line for each figure: both values, the ratio of the second by the first with its interval, what that says."""
    return [
        {
            "figure": compared.name,
            "run": compared.first,
            "other": compared.second,
            "ratio": compared.ratio,
            "low": compared.interval[0] if compared.interval else None,
            "high": compared.interval[1] if compared.interval else None,
            "other_is": compared.verdict,
        }
        for compared in comparison.figures
    ]
