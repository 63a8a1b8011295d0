"""Advice from what PerfDB has: the predictions that are compared, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.advice import advice, left_out
from inferbench_tasks.brick_jobs.costs import FIGURES, costs_of
from inferbench_tasks.brick_jobs.coverage import MEASURED_RATIO
from inferbench_tasks.brick_jobs.one_device import one_device
from inferbench_tasks.brick_jobs.predict import CALIBRATE_ON
from inferbench_tasks.brick_jobs.queries import models_of, settings_of
from inferbench_tasks.brick_jobs.stored import everywhere
from inferbench_tasks.bricks.measure.method import runtime_name
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB

Row = Mapping[str, Any]


def advised(
    db: PerfDB,
    model: str,
    task: str,
    device: str,
    batch_size: int,
    granularity: str,
    slo_ms: float | None,
    precision: str = "fp32",
    runtime: str = "",
) -> dict[str, Any]:
    """Of a model every device, of a task every model that was cut, on one device, with as many threads each; nothing is
    run. By ``runtime``, or by all that anything was timed by there.

    InputError unless one of both is asked for, and for a model, task or device that nothing is known of.
    """
    if bool(model) == bool(task):
        raise InputError(
            "say which model (for a device), or which task (for a model): one of both", field="model"
        )
    if model and device:
        raise InputError("the device is what is looked for: leave it out", field="device")
    names = [model] if model else models_of(db, task, batch_size, granularity, precision, runtime)
    settings = settings_of(db, device)
    if task:
        device = one_device(settings, device) or device
    there = {runtime_name(row["runtime"]) for row in settings} or {DEFAULT}
    runtimes = [runtime] if runtime else sorted(there, key=lambda name: (name != DEFAULT, name))
    rows: list[Row] = []
    others: list[dict[str, Any]] = []
    for name in names:
        own: list[Row] = []
        refused: list[tuple[str, InputError]] = []
        for by in runtimes:
            how = batch_size, granularity, CALIBRATE_ON, precision, by, device
            try:
                found, elsewhere = everywhere(db, name, *how, each_version=bool(task))
            except InputError as error:
                refused.append((by, error))
                continue
            own += found
            others += elsewhere
        if model and not own:
            raise refused[0][1]
        # Of a task's models one that has times by any runtime is compared by that.
        if model or not own:
            others += [left_out(name, device, by, str(error)) for by, error in refused]
        rows += own
    if task:
        rows, otherwise = at_one_place(rows)
        others = [*otherwise, *others]
    judged = _with_costs(advice(rows, slo_ms))
    return {**judged, "left_out": [*judged["left_out"], *others]}


def at_one_place(rows: Sequence[Row]) -> tuple[list[Row], list[dict[str, Any]]]:
    """(The rows of models with one number of cores and of threads, and of one version of each runtime; why the others
    are left out).

    That with which most models are calibrated, and of several known well enough; the fewest threads of these, and the
    newest version. A model with one thread is not slower than another one with four for being so, nor is it for an
    older runtime.
    """
    places = _by(rows, lambda row: (row["threads"], row["cores"]))
    if not places:
        return [], []
    threads, cores = place = min(sorted(places), key=lambda place: _fewest(places[place]))
    kept: list[Row] = []
    for versions in _by(places[place], lambda row: runtime_name(row["runtime"])).values():
        of = _by(versions, lambda row: row["runtime"])
        kept += of[min(of, key=lambda version: _fewest(of[version]))]  # the newest setting's stands first
    why = (
        f"its bricks have no times there with {threads} thread(s) on {cores} core(s) by "
        f"{', '.join(dict.fromkeys(row['runtime'] for row in kept))}, as the others are compared"
    )
    there = {row["model"] for row in kept}
    elsewhere = {row["model"]: row for row in rows if row["model"] not in there}
    return kept, [left_out(row["model"], row["device"], row["runtime"], why) for row in elsewhere.values()]


def _by(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _fewest(rows: Sequence[Row]) -> tuple[int, int]:
    """The less, the more models are calibrated, and known well enough."""
    known = [row for row in rows if _known(row)]
    calibrated = [row for row in known if row["calibrated_by"]]
    return -len({row["model"] for row in calibrated}), -len({row["model"] for row in known})


def _known(row: Row) -> bool:
    return row["predicted_ms"] is not None and row["coverage_ratio"] >= MEASURED_RATIO


def _with_costs(found: dict[str, Any]) -> dict[str, Any]:
    """Each ranked one with what 1,000 requests, and samples, cost; what that assumes once for all: it is of devices,
    not of times."""
    costs = [costs_of(row) for row in found["ranked"]]
    ranked = [
        {**row, **{name: one[name] for name in FIGURES}}
        for row, one in zip(found["ranked"], costs, strict=True)
    ]
    assume = dict.fromkeys(sentence for one in costs for sentence in one["costs_assume"])
    return {**found, "ranked": ranked, "costs_assume": list(assume)}
