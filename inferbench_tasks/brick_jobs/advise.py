"""Advice from what PerfDB has: the predictions that are compared, and what is said of them."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.brick_jobs.advice import advice
from inferbench_tasks.brick_jobs.costs import costs_of
from inferbench_tasks.brick_jobs.predict import CALIBRATE_ON
from inferbench_tasks.brick_jobs.queries import models_of, settings_of
from inferbench_tasks.brick_jobs.stored import by_device, predicted
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
    """Of a model every device, of a task every model that was cut, on one device; nothing is run.

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
    rows, other = [], []
    for name in names:
        try:
            rows.append(
                predicted(
                    db,
                    name,
                    device,
                    batch_size,
                    granularity,
                    CALIBRATE_ON,
                    precision=precision,
                    runtime=runtime,
                )
            )
        except InputError as error:
            other.append({"model": name, "device": device, "coverage_ratio": None, "why": str(error)})
    found = _with_costs(advice(rows, slo_ms))
    return {**found, "left_out": [*found["left_out"], *other]}


def _with_costs(found: dict[str, Any]) -> dict[str, Any]:
    """Each ranked one with what 1,000 requests cost; what that assumes once for all: it is of devices, not of times."""
    costs = [costs_of(row) for row in found["ranked"]]
    ranked = [
        {**row, "usd_per_1k": one["usd_per_1k"], "g_per_1k": one["g_per_1k"]}
        for row, one in zip(found["ranked"], costs, strict=True)
    ]
    assume = dict.fromkeys(sentence for one in costs for sentence in one["costs_assume"])
    return {**found, "ranked": ranked, "costs_assume": list(assume)}
