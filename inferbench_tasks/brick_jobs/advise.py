"""Advice from what PerfDB has: the predictions that are compared, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs.advice import advice
from inferbench_tasks.brick_jobs.answer import MEASURED_RATIO
from inferbench_tasks.brick_jobs.costs import costs_of
from inferbench_tasks.brick_jobs.predict import CALIBRATE_ON
from inferbench_tasks.brick_jobs.queries import models_of, settings_of
from inferbench_tasks.brick_jobs.stored import by_device
from inferbench_tasks.bricks.runtimes import DEFAULT
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB


def advised(
    db: PerfDB,
    model: str,
    task: str,
    device: str,
    batch_size: int,
    granularity: str,
    slo_ms: float | None,
    precision: str = "fp32",
    runtime: str = DEFAULT,
) -> dict[str, Any]:
    """Of a model every device, of a task every model that was cut, on one device, with as many threads each; nothing is
    run.

    InputError unless one of both is asked for, and for a model, task or device that nothing is known of.
    """
    if bool(model) == bool(task):
        raise InputError(
            "say which model (for a device), or which task (for a model): one of both", field="model"
        )
    if model:
        if device:
            raise InputError("the device is what is looked for: leave it out", field="device")
        return _with_costs(
            advice(by_device(db, model, batch_size, granularity, CALIBRATE_ON, precision, runtime), slo_ms)
        )
    names = models_of(db, task, batch_size, granularity, precision, runtime)
    devices = sorted({row["device"] for row in settings_of(db, device)})
    if len(devices) > 1:
        raise InputError(f"{device!r} is more than one device: {', '.join(devices)}", field="device")
    rows: list[dict[str, Any]] = []
    other: list[dict[str, Any]] = []
    for name in names:
        try:
            rows += by_device(
                db, name, batch_size, granularity, CALIBRATE_ON, precision, runtime, device=device
            )
        except InputError as error:
            other.append({"model": name, "device": device, "coverage_ratio": None, "why": str(error)})
    at_one, elsewhere = at_one_place(rows)
    found = _with_costs(advice(at_one, slo_ms))
    return {**found, "left_out": [*found["left_out"], *elsewhere, *other]}


def at_one_place(rows: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    """(The rows of models with one number of cores and of threads, why the others are left out).

    That with which most of them are calibrated, and of several known well enough; the fewest threads of these. A model
    with one thread is not slower than another one with four for being so.
    """
    places: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        places.setdefault((row["threads"], row["cores"]), []).append(row)
    if not places:
        return [], []

    def preferred(place: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        known = [row for row in places[place] if _known(row)]
        return -sum(bool(row["calibrated_by"]) for row in known), -len(known), place

    place = min(places, key=preferred)
    threads, cores = place
    there = {row["model"] for row in places[place]}
    why = f"its bricks have no times there with {threads} thread(s) on {cores} core(s), as the others are compared"
    elsewhere = {row["model"]: row["device"] for row in rows if row["model"] not in there}
    return places[place], [
        {"model": model, "device": device, "coverage_ratio": None, "why": why}
        for model, device in elsewhere.items()
    ]


def _known(row: Mapping[str, Any]) -> bool:
    return row["predicted_ms"] is not None and row["coverage_ratio"] >= MEASURED_RATIO


def _with_costs(found: dict[str, Any]) -> dict[str, Any]:
    """Each ranked one with what 1,000 requests cost; what that assumes once for all: it is of devices, not of times."""
    costs = [costs_of(row) for row in found["ranked"]]
    ranked = [
        {**row, "usd_per_1k": one["usd_per_1k"], "g_per_1k": one["g_per_1k"]}
        for row, one in zip(found["ranked"], costs, strict=True)
    ]
    assume = dict.fromkeys(sentence for one in costs for sentence in one["costs_assume"])
    return {**found, "ranked": ranked, "costs_assume": list(assume)}
