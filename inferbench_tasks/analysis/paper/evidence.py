"""What the paper's figures are compared with beside runs of its own submissions: all of PerfDB, the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from inferbench_tasks.analysis.devices.costs import MEASURED, Offer
from inferbench_tasks.analysis.devices.speedup import Speedups
from inferbench_tasks.analysis.paper.finding import Finding, both
from inferbench_tasks.analysis.paper.scheduler import NO_LOG, Replayed


@dataclass(frozen=True)
class Evidence:
    """``speedups``: over the CPU; ``scheduler``: why there is no log, where there is none."""

    speedups: Speedups = field(default_factory=lambda: Speedups([]))
    offers: Sequence[Offer] = ()
    scheduler: Replayed | str = NO_LOG


def faster_than_the_cpu(evidence: Evidence) -> Finding:
    """Of each GPU and model: agrees where the interval of its speed-up is above 1, differs where it is below."""
    rows = [row for row in evidence.speedups.rows if row["ci95"] and row["device_kind"] == "gpu"]
    if not rows:
        return Finding("unmeasured", "no model was measured on a CPU, one user with one sample, and on a GPU")
    findings = []
    for row in rows:
        low, high = row["ci95"]
        text = f"{row['model']} on {row['device']}: {row['speedup']:.3g} times ({low:.3g} to {high:.3g})"
        findings.append(Finding("agrees" if low > 1 else "differs" if high < 1 else "undecided", text))
    return both(*findings)


def rates_differ(evidence: Evidence) -> Finding:
    """Of each measured device that several providers have: whether an hour of it costs the same."""
    rates: dict[str, dict[str, float]] = {}
    for offer in evidence.offers:
        for row in offer.rows:
            if row["basis"] == MEASURED:
                rates.setdefault(row["device"], {})[row["provider"]] = row["usd_per_hour"]
    findings = []
    for device, of_providers in sorted(rates.items()):
        if len(of_providers) > 1:
            said = ", ".join(f"{name} {rate:.3g} USD/h" for name, rate in sorted(of_providers.items()))
            same = len(set(of_providers.values())) == 1
            findings.append(Finding("differs" if same else "agrees", f"{device}: {said}"))
    if not findings:
        return Finding(
            "unmeasured", "configs/prices.yaml has no second provider of a device that was measured here"
        )
    return both(*findings)
