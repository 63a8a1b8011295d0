"""What the paper's figures are compared with beside runs of its own submissions: all of PerfDB, the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.analysis.devices import names
from inferbench_tasks.analysis.devices.costs import MEASURED, Offer, Row, doubts
from inferbench_tasks.analysis.devices.speedup import Speedups
from inferbench_tasks.analysis.paper.finding import Finding, both
from inferbench_tasks.analysis.paper.scheduler import NO_LOG, Replayed

#: So many models without a speed-up are named.
MOST_NOTES = 2


@dataclass(frozen=True)
class Evidence:
    """``speedups``: over the CPU; ``scheduler``: why there is no log, where there is none; ``ceilings``: of the
    machine that ran the paper's submissions, None where that is not this one."""

    speedups: Speedups = field(default_factory=lambda: Speedups([]))
    offers: Sequence[Offer] = ()
    scheduler: Replayed | str = NO_LOG
    ceilings: Ceilings | None = None


def faster_than_the_cpu(evidence: Evidence) -> Finding:
    """Of each GPU and model: agrees where the interval of its speed-up is above 1, differs where it is below, or where
    the GPU keeps the CPU's latency with no configuration; one that possibly keeps it decides nothing, nor does one that
    was never asked one sample at a time: it may be quicker than what was measured.
    """
    rows = [row for row in evidence.speedups.rows if row["device_kind"] == "gpu"]
    rows = [row for row in rows if row["device"] != row["reference"]]
    if not rows:
        none = "no model was measured on a CPU, one user with one sample, and on a GPU"
        return Finding("unmeasured", "; ".join(filter(None, [none, left_out(evidence.speedups)])))
    several = len({(row["model"], row["device"]) for row in rows}) < len(rows)
    named = names.of_rows(rows) if several else [row["model"] for row in rows]
    return both(*(_faster(name, row) for name, row in zip(named, rows, strict=True)))


def left_out(speedups: Speedups) -> str:
    """Which models have no speed-up, and why; of many the first, and how many more. "" where none is left out."""
    first, rest = speedups.notes[:MOST_NOTES], len(speedups.notes) - MOST_NOTES
    more = [f"{rest} more models: inferbench speedup, and the page Devices"] if rest > 0 else []
    return "; ".join([*first, *more])


def _faster(name: str, row: Row) -> Finding:
    text = f"{name} on {row['device']}"
    if row["ci95"] is None:
        # Without figures, or never asked alone, it was not measured, which says nothing of the device.
        measured = row["latency_ms"] is not None and row["asked_alone"]
        return Finding("differs" if measured else "unmeasured", f"{text}: {row['reason']}")
    low, high = row["ci95"]
    if row["speedup"] is None:
        return Finding("undecided", f"{text}: {row['reason']} (0 to {high:.3g} times)")
    text += f": {row['speedup']:.3g} times ({low:.3g} to {high:.3g})"
    if high < 1 and not row["asked_alone"]:
        return Finding("undecided", f"{text}, but it was never asked one sample at a time")
    return Finding("agrees" if low > 1 else "differs" if high < 1 else "undecided", text)


def rates_differ(evidence: Evidence) -> Finding:
    """Of each measured device that several providers have: whether an hour of it costs the same, at each provider's
    cheapest instance. Rates that nobody looked up, or of another product of the family, decide nothing.
    """
    of_devices: dict[str, list[Row]] = {}
    for offer in evidence.offers:
        for row in offer.rows:
            if row["basis"] == MEASURED:
                of_devices.setdefault(row["device"], []).append(row)
    findings = [_rates(device, rows) for device, rows in sorted(of_devices.items())]
    if not (known := [finding for finding in findings if finding is not None]):
        return Finding(
            "unmeasured", "configs/prices.yaml has no second provider of a device that was measured here"
        )
    return both(*known)


def _rates(device: str, rows: Sequence[Row]) -> Finding | None:
    """None where one provider has it."""
    sure = _cheapest(row for row in rows if not doubts(row))
    shown = sure if len(sure) > 1 else _cheapest(rows)
    if len(shown) < 2:
        return None
    said = ", ".join(
        " ".join([f"{name} {row['usd_per_hour']:.3g} USD/h", *(f"({word})" for word in doubts(row))])
        for name, row in sorted(shown.items())
    )
    if len(sure) < 2:
        return Finding("undecided", f"{device}: {said}")
    same = len({row["usd_per_hour"] for row in sure.values()}) == 1
    return Finding("differs" if same else "agrees", f"{device}: {said}")


def _cheapest(rows: Iterable[Row]) -> dict[str, Row]:
    """Provider -> its row."""
    found: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row["usd_per_hour"]):
        found.setdefault(row["provider"], row)
    return found
