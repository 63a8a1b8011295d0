"""What ``collect`` has of each host of a training, and what is made of it: no time of one is set beside the other's.

Phases, steps and rates are durations by their own host's clock. Moments of two clocks meet in traces alone, where the
exchanges between the hosts bound how they lie (``clock``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.verdict import MODE, Reason
from inferbench_tasks.monitors.records import Recording
from inferbench_tasks.training import disturbance, memory_figures
from inferbench_tasks.training.hosts.facts import HostFacts, SecondHost
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import Answer

if TYPE_CHECKING:
    from inferbench_tasks.contracts.held_device import HeldDevice

UNTOLD_COST = "it ran on two hosts, and energy and money are reckoned of one"
UNTOLD_CLOCK = "the clocks of the two hosts contradicted themselves while it ran"


@dataclass(frozen=True)
class OfHost:
    """One host's part: ``answers`` of its ranks, and the recording of its monitors, on its own clock."""

    node: int
    facts: HostFacts
    answers: Sequence[Answer]
    recording: Recording
    monitors_path: Path

    @property
    def label(self) -> str:
        """Two workers of one machine, in a test, have one name."""
        return f"host {self.node} ({self.facts.host})"

    def window(self) -> tuple[int, int]:
        """From its first measured step to its last, else from its first epoch to its last one, ns."""
        epochs = [epoch for answer in self.answers for epoch in answer.epochs]
        windows = [(epoch.window_start_ns, epoch.window_end_ns) for epoch in epochs]
        return disturbance.window_of(windows) or (epochs[0].started_ns, epochs[-1].ready_ns)

    def ledger(self, job: TrainingJob) -> dict[str, Any]:
        """What else happened on it while steps were measured."""
        return disturbance.ledger(self.recording, self.answers, job, self.facts.hardware)

    def memory(self) -> dict[str, Any] | None:
        """What the want of memory cost there."""
        return memory_figures.of_epochs(self.answers, self.recording)


def ledger(hosts: Sequence[OfHost], job: TrainingJob) -> dict[str, Any]:
    """Of one host its own; of two one for both, with each for itself (``hosts``).

    Who disturbs either disturbs the run.
    """
    if len(hosts) == 1:
        return hosts[0].ledger(job)
    of = [{"host": host.label, **host.ledger(job)} for host in hosts]
    findings = [
        {**finding, "host": one["host"], "text": f"on {one['host']}: {finding['text']}"}
        for one in of
        for finding in one["findings"]
    ]
    return {
        "findings": sorted(findings, key=lambda finding: not finding["quarantine"]),
        "not_watched": [f"{what} on {one['host']}" for one in of for what in one["not_watched"]],
        "watched": all(one["watched"] for one in of),
        "mode": os.environ.get(MODE) or None,
        "hosts": of,
    }


def memory(hosts: Sequence[OfHost]) -> dict[str, Any] | None:
    """Of the host that memory held up most; None where the ranks of one kept no count."""
    of = [(host, figures) for host in hosts if (figures := host.memory()) is not None]
    if len(of) < len(hosts):
        return None
    if len(hosts) == 1:
        return of[0][1]
    host, figures = max(of, key=lambda one: (one[1]["stalled_ratio"] or 0.0, one[1]["major_faults"]))
    return {**figures, "host": host.label}


def unlike(hosts: Sequence[OfHost]) -> list[Reason]:
    """Why a run of two hosts is none of one engine: another torch on each."""
    versions = {host.label: str(host.answers[0].versions.get("torch")) for host in hosts}
    if len(set(versions.values())) == 1:
        return []
    text = "the hosts have different versions of torch: " + ", ".join(
        f"{v} on {h}" for h, v in versions.items()
    )
    return [Reason(check="same_versions", text=text)]


def device_name(names: Sequence[str | None]) -> str | None:
    """One name where all devices have it, else all of them."""
    return " and ".join(dict.fromkeys(name or "unknown" for name in names)) if any(names) else None


def cores(hosts: Sequence[OfHost]) -> float | None:
    """Those that all ranks may use; of unlike hosts as many of each as the poorer has, for which the other waits."""
    each = [host.facts.cores for host in hosts]
    known = [count for count in each if count is not None]
    return min(known) * len(hosts) if known and len(known) == len(each) else None


def cluster(devices: Sequence[HeldDevice]) -> str | None:
    """The name that the workers of the devices have; of two clusters both. None without a name."""
    return " + ".join(dict.fromkeys(device.cluster for device in devices if device.cluster)) or None


def clock(second: SecondHost, window: tuple[int, int]) -> dict[str, Any]:
    """How the first host's clock lies to the second's in the ``window`` of the second's: ``ahead_ns``, wrong by at most
    ``error_ns``; None with the ``reason`` where it is not known.
    """
    from inferbench_tasks.monitors.two_hosts import placed
    from inferbench_tasks.timing.two_clocks import Exchange

    place = placed([Exchange(*four) for four in second.exchanges], *window)
    if place is None:
        return {"ahead_ns": None, "error_ns": None, "reason": UNTOLD_CLOCK}
    return {"ahead_ns": place.offset_ns, "error_ns": place.error_ns, "reason": ""}


def stored(host: OfHost, monitors: Mapping[str, Any]) -> dict[str, Any]:
    """What a result says of one of two hosts."""
    start_ns, end_ns = host.window()
    return {
        "host": host.facts.host,
        "ranks": [answer.rank for answer in host.answers],
        "cores": host.facts.cores,
        "hardware": host.facts.hardware,
        "system": host.facts.system,
        "versions": {**host.facts.versions, **host.answers[0].versions},
        "measured_window": {"start_ns": start_ns, "end_ns": end_ns},
        "memory": host.memory(),
        "monitors": monitors,
    }
