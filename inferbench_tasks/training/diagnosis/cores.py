"""More processes than granted cores: ranks and their loader processes take turns, and every phase grows by the wait."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.imported.rows import Import, Log

#: So much faster has the same work to be with cores enough, where a log tells, for their want to be a cause.
_LEAST_GAIN = 1.05


def find(content: Import) -> Iterator[Cause]:
    """Of logs with the loader's warning: torch counts the cores that it may use, and says so there."""
    starved = [
        log for log in content.logs if log.usual_workers is not None and log.processes > log.usual_workers
    ]
    for alike in sorted({_alike(log) for log in starved}, reverse=True):
        logs = [log for log in starved if _alike(log) == alike]
        devices, workers, cores, _ = alike
        worst = max(logs, key=lambda log: log.step_s)
        evidence = [
            f"{worst.source}: torch's loader was granted {cores} core(s) ('suggested max number of worker in current "
            f"system is {cores}') for {devices} rank(s) with {workers} loader process(es) each",
            *(
                f"{log.source}: {_work(log)}: loading {log.loading_s:.4f} s and forward {log.forward_s:.4f} s a step"
                for log in logs
            ),
        ]
        freed = [(log, better) for log in logs if (better := _without_the_warning(log, content.logs))]
        if freed and all(log.step_s < _LEAST_GAIN * better.step_s for log, better in freed):
            continue  # the same work with cores enough was no faster: they hold nothing up
        evidence += [
            f"{better.source}: the same work without the warning: loading {better.loading_s:.4f} s and forward "
            f"{better.forward_s:.4f} s, {log.step_s / better.step_s:.1f} times faster"
            for log, better in freed
            if log.step_s > better.step_s
        ]
        node = f" (the node has {worst.cores_physical})" if worst.cores_physical else ""
        yield Cause(
            rule="cores",
            kind="cause",
            sentence=f"{worst.processes} processes share {cores} granted core(s) on {devices} device(s): loading and "
            f"every phase that the host takes part in {'wait' if freed else 'may wait'} for a core.",
            evidence=evidence,
            remedy=f"Ask for a core for each process, {worst.processes} in all{node}{_fewer(cores, devices)}.",
            cost_s=max((log.step_s - better.step_s for log, better in freed), default=None),
        )


def _alike(log: Log) -> tuple[int, int, int, str]:
    """Logs of as many ranks and loader processes on as many cores of one kind of device are one case."""
    return log.devices, log.started_workers, log.usual_workers or 1, log.device


def _fewer(cores: int, devices: int) -> str:
    """What the granted cores are enough for."""
    workers = cores // devices - 1
    return f", or give each rank at most {workers} loader process(es)" if workers >= 0 else ""


def _work(log: Log) -> str:
    return f"{log.data}, {log.benchmark.replace('_', ' ')}"


def _without_the_warning(log: Log, logs: list[Log]) -> Log | None:
    same = ("benchmark", "data", "device", "devices", "workers", "batch_size", "model", "precision")
    others = [
        other
        for other in logs
        if other.usual_workers is None and all(getattr(other, n) == getattr(log, n) for n in same)
    ]
    return min(others, key=lambda other: other.step_s, default=None)
