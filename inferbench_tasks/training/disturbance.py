"""What else happened on the machine while steps were measured: the ledger of ``metrics.interference``, for ranks.

Each stretch of epochs is judged by itself: a mean over all of them would thin out what disturbed one. What the ranks
and their loaders used and waited they read themselves, in ns, so that a loader that lives shorter than a monitor's look
is nobody else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.metrics.interference import FOREIGN_WARN_RATIO
from inferbench_tasks.metrics.machine_use import MachineUse, machine_use
from inferbench_tasks.metrics.wait_bounds import WAIT_RATIO
from inferbench_tasks.monitors.records import Recording
from inferbench_tasks.monitors.steal import STEAL_QUARANTINE_RATIO, STEAL_WARN_RATIO
from inferbench_tasks.training import clocks
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer, Epoch

#: Monitors that a training needs; the last two for its energy, where there are counters.
MONITORS = ("host", "server", "client", "wait", "rapl", "gpu")
#: The kernel counts a core's use and steal in ticks of 10 ms: shorter stretches than this, s, would be judged by them.
STRETCH_S = 1.0
#: Of the time of the steps so much may be waits behind others: they make a step a quarter longer then, which is what
#: they may make of a reported percentile of a serving run.
LOST_QUARANTINE_RATIO = WAIT_RATIO / (1 + WAIT_RATIO)
LOST_WARN_RATIO = LOST_QUARANTINE_RATIO / 2


@dataclass(frozen=True)
class _Stretch:
    """The measured windows of epochs that follow each other, all ranks': what they and others used, s."""

    windows_s: float
    own_s: float | None
    wait_s: float | None
    longest_s: float
    host: MachineUse
    client_s: float | None

    @property
    def foreign_s(self) -> float | None:
        if self.host.busy_s is None or self.own_s is None or self.client_s is None:
            return None
        return max(0.0, self.host.busy_s - self.own_s - self.client_s)

    def lost_ratio(self, foreign_s: float, own_threads: int) -> float:
        """The share of the steps' time that others took.

        Of what all waited others caused no more than they used. While the training has no more threads than there are
        cores, none of them need wait for another, and what one thread waited is lost to all. Where waits are not told,
        all that others used counts.
        """
        assert self.own_s is not None
        taken_s = foreign_s if self.wait_s is None else min(self.wait_s, foreign_s)
        together = taken_s / (self.own_s + taken_s) if taken_s else 0.0
        if own_threads > self.host.cores:
            return together
        return max(together, min(self.longest_s, foreign_s) / self.windows_s)


def ledger(
    recording: Recording, answers: Sequence[Answer], job: TrainingJob, hardware: Mapping[str, Any]
) -> dict[str, Any]:
    """``{findings, not_watched, watched, mode}`` of the measured windows, by the thresholds of serving runs.

    ``answers``: of the ranks of the host that ``recording`` is of.

    Foreign is what neither the ranks with their loaders nor InferBench's own processes used. Of each kind of finding
    the worst stretch stands.
    """
    stretches = list(_stretches(recording, answers, job, hardware))
    missing: dict[str, None] = {}
    worst: dict[str, dict[str, Any]] = {}

    def add(kind: str, value: float, warn: float, quarantine: float | None, text: str) -> None:
        if value >= warn and value > worst.get(kind, {"value": -1.0})["value"]:
            grave = quarantine is not None and value >= quarantine
            bound = quarantine if grave else warn
            worst[kind] = {"kind": kind, "value": value, "bound": bound, "quarantine": grave, "text": text}

    threads = len(answers) * (job.devices.threads + job.workers)
    for stretch in stretches:
        cores = stretch.host.cores
        if stretch.host.steal_s is None:
            missing["steal"] = None
        else:
            ratio = stretch.host.steal_s / stretch.windows_s / cores
            text = f"the hypervisor took {ratio:.1%} of the machine's CPU time (at most {STEAL_QUARANTINE_RATIO:.0%})"
            add("steal", ratio, STEAL_WARN_RATIO, STEAL_QUARANTINE_RATIO, text)
        if stretch.wait_s is None:
            missing["waiting for a core"] = None
        if stretch.foreign_s is None:
            missing["foreign CPU"] = None
            continue
        foreign = stretch.foreign_s / stretch.windows_s
        text = f"processes that are not the run's used {foreign:.2f} of {cores} cores ({foreign / cores:.0%})"
        add("foreign_cpu", foreign / cores, FOREIGN_WARN_RATIO, None, text)
        lost = stretch.lost_ratio(stretch.foreign_s, threads)
        text = (
            f"the run's processes lost {lost:.0%} of their steps' time waiting for a core (at most "
            f"{LOST_QUARANTINE_RATIO:.0%}) while others used {foreign:.2f} of {cores} cores"
        )
        add("waited_for_cpu", lost, LOST_WARN_RATIO, LOST_QUARANTINE_RATIO, text)
    of_clocks, unseen = clocks.look(
        recording, _epoch_windows(answers), job.devices.kind.kind, hardware, job.devices.count
    )
    worst |= {finding["text"]: finding for finding in of_clocks}
    missing |= dict.fromkeys(unseen)
    if not stretches:
        missing |= dict.fromkeys(("steal", "waiting for a core", "foreign CPU"))
    return {
        "findings": sorted(worst.values(), key=lambda finding: not finding["quarantine"]),
        "not_watched": list(missing),
        "watched": bool(stretches) and "foreign CPU" not in missing,
        "mode": os.environ.get(MODE) or None,
    }


def _stretches(
    recording: Recording, answers: Sequence[Answer], job: TrainingJob, hardware: Mapping[str, Any]
) -> Iterator[_Stretch]:
    epochs = zip(*(answer.epochs for answer in answers), strict=False)
    measured = [ranks for ranks in epochs if window_of(_windows(ranks)) is not None]
    for windows in clocks.joined(_epoch_windows(answers), STRETCH_S):
        yield _stretch(recording, measured[: len(windows)], job, hardware)
        measured = measured[len(windows) :]


def _epoch_windows(answers: Sequence[Answer]) -> list[tuple[int, int]]:
    epochs = zip(*(answer.epochs for answer in answers), strict=False)
    return [window for ranks in epochs if (window := window_of(_windows(ranks))) is not None]


def _stretch(
    recording: Recording, epochs: Sequence[Sequence[Epoch]], job: TrainingJob, hardware: Mapping[str, Any]
) -> _Stretch:
    windows = [window for ranks in epochs if (window := window_of(_windows(ranks))) is not None]
    hosts = [machine_use(recording, hardware, *window) for window in windows]
    client = recording.get("client", "cpu_s_total")
    every = [epoch for ranks in epochs for epoch in ranks]
    cpu_s, wait_s = [epoch.cpu_s for epoch in every], [epoch.wait_s for epoch in every]
    if job.workers:
        cpu_s += [epoch.loader_cpu_s for epoch in every]
        wait_s += [epoch.loader_wait_s for epoch in every]
    return _Stretch(
        windows_s=sum(end - start for start, end in windows) / 1e9,
        own_s=_sum(cpu_s),
        wait_s=_sum(wait_s),
        longest_s=sum(max(epoch.longest_wait_s or 0.0 for epoch in ranks) for ranks in epochs),
        host=MachineUse(
            hosts[0].cores, _sum([host.busy_s for host in hosts]), _sum([host.steal_s for host in hosts])
        ),
        client_s=_sum([client.increase(*window) if client else None for window in windows]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _windows(ranks: Sequence[Epoch]) -> list[tuple[int | None, int | None]]:
    return [(epoch.window_start_ns, epoch.window_end_ns) for epoch in ranks]


def window_of(epochs: Sequence[tuple[int | None, int | None]]) -> tuple[int, int] | None:
    """From the first measured step to the last of these, ns; None without measured steps."""
    starts = [start for start, _ in epochs if start is not None]
    ends = [end for _, end in epochs if end is not None]
    return (min(starts), max(ends)) if starts and ends else None
