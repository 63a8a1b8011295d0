"""What a run's report can't show, by name and with the reason: a figure that is not there is never passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.lacking import withheld_of
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES
from inferbench_tasks.perfdb.offered import NO_LOAD

#: Percentiles whose absence is worth a note; that of p99.9 is the rule in a short run.
_EXPECTED = (0.5, 0.9, 0.95, 0.99)
#: What is not told of runs on several hosts, and what is said of those of before results had the reason.
WAITED = "what a request waited for a core"
_OWN_CLOCKS = "the waits of its hosts are known on clocks of their own"
#: What is missing from more runs than this is said once, with their number.
_BY_NAME = 3


def missing_notes(views: Sequence[RunView]) -> list[str]:
    """One note for each thing that is missing, with the runs that it is missing from."""
    where: dict[str, list[str]] = {}
    for view in views:
        for text in missing(view):
            where.setdefault(text, []).append(view.label)
    notes = []
    for text, labels in where.items():
        if len(labels) == len(views) > 1:
            who = f"all {len(views)} runs"
        elif len(labels) > _BY_NAME:
            who = f"{len(labels)} of {len(views)} runs"
        else:
            who = "; ".join(labels)
        notes.append(f"{who}: {text}")
    return notes


def missing(view: RunView) -> list[str]:
    """Of one run; [] where it has no records at all, which its verdict tells."""
    if view.result is not None and view.result.load.arrivals.get("kind") == NO_LOAD:
        return ["no load: no latency, no throughput and none of what follows from these."]
    if not view.measured:
        return []
    return [*_latency(view), *_resources(view), *_derived(view)]


def _latency(view: RunView) -> list[str]:
    requests, answered = view.figure("requests") or 0, view.figure("ok") or 0
    if not requests:
        return ["no request was measured, so it has no figures of the load."]
    if not answered:
        errors = ", ".join(f"{count:,d} {kind}" for kind, count in (view.figure("errors") or {}).items())
        return [f"none of its {requests:,d} requests got a good answer ({errors}), so there is no latency."]
    texts = []
    withheld = _withheld(view)
    for reason in dict.fromkeys(withheld.values()):
        names = [name for name, why in withheld.items() if why == reason]
        texts.append(f"its {', '.join(names)} {'is' if len(names) == 1 else 'are'} withheld: {reason}.")
    lacking = [
        q for q in _EXPECTED if view.figure(f"e2e_latency_ms.{NAMES[q]}") is None and NAMES[q] not in withheld
    ]
    if lacking:
        needs = ", ".join(f"{NAMES[q]} ({FLOORS[q]:,d})" for q in lacking)
        texts.append(f"its {answered:,d} good answers are too few for {needs}: so many would be needed.")
    lowest = view.figure("e2e_latency_ms.min")
    if lowest is not None and lowest < 0:
        texts.append(
            f"a clock jumped: there are answers before their requests (by up to {-lowest:,.3g} ms), so no latency of "
            "this run can be trusted."
        )
    return texts


def withheld_notes(views: Sequence[RunView]) -> list[str]:
    """For beneath a table of runs: which of their latencies are withheld, and why; nothing where none are."""
    runs_by_text: dict[str, list[str]] = {}
    for view in views:
        withheld = _withheld(view)
        for reason in dict.fromkeys(withheld.values()):
            names = ", ".join(name for name, why in withheld.items() if why == reason)
            runs_by_text.setdefault(f"{names}: {reason}", []).append(view.label)
    return [
        f"Withheld of {'; '.join(labels) if len(labels) <= _BY_NAME else f'{len(labels)} runs'}: {text}."
        for text, labels in runs_by_text.items()
    ]


def _withheld(view: RunView) -> dict[str, str]:
    """The latencies of the table of figures that the certificate withholds, by their words."""
    latencies = [figure for figure in FIGURES.values() if figure.path.startswith("e2e_latency_ms.")]
    reasons = {figure.path.rpartition(".")[2]: withheld_of(figure, view.summary) for figure in latencies}
    return {name: reason for name, reason in reasons.items() if reason}


def _resources(view: RunView) -> list[str]:
    resources = view.figure("resources") or {}
    reasons: dict[str, Any] = (resources.get("monitor") or {}).get("unavailable") or {}
    device = view.result.device if view.result else None
    machines = _of_each_host(resources) or {"host": "CPU of the machine"}
    sources = {"server": "CPU and memory of the server", **machines}
    if device is not None and device.kind == "gpu":
        sources["gpu"] = "utilisation, memory, power and clocks of the GPU"
    return [
        f"{what}: not measured ({reasons.get(source) or 'the monitors recorded nothing of it'})."
        for source, what in sources.items()
        if not resources.get(source) or (source == "server" and source in reasons and _no_sum(resources))
    ]


def _no_sum(resources: Mapping[str, Any]) -> bool:
    """Whether there are parts of the servers on several hosts, and none of the sums over them."""
    server = resources["server"]
    return server.get("cpu_s_total") is None and not server.get("cpu_cores")


def waits_reason(view: RunView) -> str:
    """Why nobody tells what a request of a run on several hosts waited on them together; "" where that is told, or
    where there is no ledger.
    """
    ledger = view.figure("interference") or {}
    if not ledger.get("hosts") or ledger.get("waits_ms") is not None:
        return ""
    return str(ledger.get("waits_reason") or _OWN_CLOCKS)


def _of_each_host(resources: Mapping[str, Any]) -> dict[str, str]:
    """Of replicas on hosts of their own each of these in place of the machine; {} of one host."""
    parts = {name: name.removesuffix("_host").removeprefix("replica") for name in resources}
    return {
        name: f"CPU of replica {number}'s machine"
        for name, number in parts.items()
        if name == f"replica{number}_host"
    }


def _derived(view: RunView) -> list[str]:
    texts = []
    for name, what in (("energy", "energy"), ("cost", "cost")):
        reason = (view.figure(name) or {}).get("reason")
        if reason:
            texts.append(f"{what}: not known ({reason}).")
    if not (view.figure("energy") or {}).get("reason") and (
        reason := (view.figure("carbon") or {}).get("reason")
    ):
        texts.append(f"CO₂: not known ({reason}).")
    # A load from another host has a table of what it lacks.
    apart = view.result is not None and view.result.extensions.get("client_host") is not None
    if not apart and (reason := waits_reason(view)):
        texts.append(f"{WAITED}: not known ({reason}).")
    problems = view.figure("metric_problems") or {}
    return texts + [f"{kind}: not known ({problem})." for kind, problem in problems.items()]
