"""Clusters: names that workers have. What each of them has, and two of them by the same work."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.cluster.device import Device
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.listing import listed
from inferbench_tasks.training.result import TrainingResult

#: Newest results of a cluster that are looked through for the same work.
_LOOKED_AT = 500


def rows(db: PerfDB, devices: list[Device]) -> list[dict[str, Any]]:
    """A line for each name of a device or of a training: devices by type, those in quarantine, valid trainings."""
    of_results = db.results_of(TrainingResult, {"cluster": {"$ne": None}})
    names = {device.cluster for device in devices if device.cluster} | {
        result.cluster for result in of_results if result.cluster
    }
    lines = []
    for name in sorted(names):
        own = [device for device in devices if device.cluster == name]
        runs = [result for result in of_results if result.cluster == name]
        valid = [result for result in runs if result.verdict.valid]
        types = sorted({device.device_type for device in own})
        lines.append(
            {
                "cluster": name,
                "hosts": len({device.host for device in own}),
                "devices": len(own),
                "types": ", ".join(f"{sum(d.device_type == of for d in own)} x {of}" for of in types),
                "quarantined": sum(device.health == "quarantined" for device in own),
                "trainings": len(runs),
                "valid": len(valid),
                "newest": max((result.created_at for result in runs), default=None),
            }
        )
    return lines


def pair(db: PerfDB, first: str, second: str) -> tuple[TrainingResult, TrainingResult] | None:
    """The newest valid runs of the same job on both clusters; None unless both are names of clusters with results.

    InputError where they have no valid run of the same job, or one of them no valid run.
    """
    ones, others = (
        [r for r in listed(db, {"cluster": name}, limit=_LOOKED_AT) if r.verdict.valid]
        for name in (first, second)
    )
    if not ones or not others:
        if all(listed(db, {"cluster": name}, limit=1) for name in (first, second)):
            without = " and ".join(name for name, of in ((first, ones), (second, others)) if not of)
            raise InputError(f"no training of {without} is valid, and only valid ones are compared")
        return None
    newest: dict[str | None, TrainingResult] = {}
    for result in others:
        newest.setdefault(result.submission.digest, result)
    for result in ones:
        if result.submission.digest is not None and result.submission.digest in newest:
            return result, newest[result.submission.digest]
    raise InputError(
        f"{first} and {second} have no valid training of the same job: run one submission on both clusters"
    )
