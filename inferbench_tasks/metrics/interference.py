"""The interference ledger: what else happened on the machine while a run was measured.

A finding at or above its quarantine threshold makes the run ``disturbed: <by what, how much>``; one above its
warning threshold is shown. Thresholds in shares of the machine's cores, counts, or ms of a request's time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from inferbench_tasks.contracts.device import CPU
from inferbench_tasks.contracts.verdict import INTERFERENCE, MODE, Reason
from inferbench_tasks.metrics.base import Block, ClientHost, Measured
from inferbench_tasks.metrics.machine_use import machine_use
from inferbench_tasks.metrics.sender_waits import what_it_waited
from inferbench_tasks.monitors.gpu import HELD_BACK
from inferbench_tasks.monitors.steal import STEAL_QUARANTINE_RATIO, STEAL_WARN_RATIO

__all__ = ["MODE", "NOTE", "Interference", "decides", "reasons"]

#: With ``MODE`` set so, findings are shown and decide nothing: the run is disturbed for that alone, whatever happened,
#: and is not repeated. For tests of other things on a busy machine. ``strict``: every finding counts, those too that
#: are only warnings otherwise.
NOTE = "note"
#: CPU used by processes that are neither the server nor the load: worth noting from here on.
FOREIGN_WARN_RATIO = 0.10
#: The share of its runnable time in which the server waited for a core. While others use the CPU, so much
#: waiting is theirs; without them it is the server's own (more busy threads than cores), and no interference.
#: At one half every piece of its work took twice as long as it would have alone.
WAITED_WARN_RATIO, WAITED_QUARANTINE_RATIO = 0.20, 0.50
#: What was not watched, as a result names it.
FOREIGN, WAITS = "foreign CPU", "waits for a core over time"
#: Why nobody tells what a request waited on several hosts together.
OWN_CLOCKS = "the waits of its hosts are known on clocks of their own"
ANY_REPLICA = "which replica a request went to is not known"
#: A clock that moved by more than this share within the window.
CLOCK_WARN_RATIO = 0.10


class Interference(Block):
    """What disturbed a run."""

    unit: ClassVar[str] = "-"
    formula: ClassVar[str] = (
        "steal, foreign CPU = host - server - client, GPU processes, throttling, ECC, clocks"
    )
    path: ClassVar[str] = "interference"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{findings: [{kind, value, bound, quarantine, text}], not_watched: [...], ...}, the gravest first.

        ``bound``: what ``value`` reached, the quarantine threshold of a finding that is above it, else the warning's.
        ``watched``: whether the machine's CPU was recorded over the whole window, and what others used of it or how
        long server and sender waited for it. ``mode``: the user's choice
        (``MODE``), None without one. ``waits_ms``: by the share of requests in per cent that met no more, the wait
        for a core that others caused, ms, and its ``mean``; None where it was not recorded, and of several hosts, with
        the ``waits_reason``. ``sender``: what the sender waited, see ``sender_waits``.
        """
        if measured.client is not None:
            return self._of_two_hosts(measured, measured.client)
        if measured.hosts:
            return self._of_replicas(measured)
        findings: list[dict[str, Any]] = []
        missing: list[str] = []
        unseen: list[str] = []
        waits_ms = _waits(measured, findings, unseen)
        _cpu(measured, findings, missing, bool(unseen))
        missing += unseen
        sender = what_it_waited(measured)
        _clock(measured, "host", "frequency_mhz", "the processor's clock", findings)
        if measured.device.kind == "gpu":
            _gpu(measured, findings, missing)
        findings.sort(key=lambda finding: not finding["quarantine"])
        busy = measured.recording.get("host", "cpu_busy_s_total")
        watched = (
            busy is not None
            and busy.increase(measured.window.start_ns, measured.window.end_ns) is not None
            and not {FOREIGN, WAITS} <= {*missing}
        )
        return {
            "findings": findings, "not_watched": missing, "watched": watched,
            "mode": os.environ.get(MODE) or None, "waits_ms": waits_ms, "sender": sender,
        }  # fmt: skip

    def _of_two_hosts(self, measured: Measured, client: ClientHost) -> dict[str, Any]:
        """One ledger for all, and each for itself (``hosts``): who disturbed one of them disturbed the run.

        What requests waited on both hosts together is not told: their waits are known on two clocks. A host that sent a
        part of the load is held to the requests that it sent.
        """
        alone = replace(measured, client=None)
        ledgers = {"server": self.compute(alone)}
        for role, host in client.by_role.items():
            window = measured.window.sent_by(host.shards) if host.shards else measured.window
            ledgers[role] = self.compute(
                replace(alone, window=window, recording=host.recording, hardware=host.hardware, device=CPU)
            )
        if client.unwatched:
            ledgers["server"] |= {"watched": False, "not_watched": [client.unwatched]}
        findings = [
            {**finding, "host": host, "text": f"on the {host}'s host: {finding['text']}"}
            for host, ledger in ledgers.items()
            for finding in ledger["findings"]
        ]
        sender = _of_all([ledgers[role]["sender"] for role in client.by_role])
        return _together(ledgers, {role: f"{role}'s host" for role in ledgers}, findings, sender, OWN_CLOCKS)

    def _of_replicas(self, measured: Measured) -> dict[str, Any]:
        """The same of hosts with a replica each; the first has the load, too.

        What a request waited is judged on each host as if all had gone there: which did is not known of each.
        """
        ledgers: dict[str, dict[str, Any]] = {}
        findings: list[dict[str, Any]] = []
        for host in measured.hosts:
            alone = replace(measured, hosts=(), recording=host.recording, hardware=host.hardware)
            if ledgers:  # the balancer is on the first host alone
                alone = replace(alone, balancer_cores=(), device_cores=(), balancer_own_cores=0)
            ledger = self.compute(alone)
            if host.unwatched:
                ledger |= {"watched": False, "not_watched": [host.unwatched]}
            role = f"replica {host.number}"
            ledgers[role] = ledger
            findings += [
                {**finding, "host": role, "text": f"on the host of {role} ({host.name}): {finding['text']}"}
                for finding in ledger["findings"]
            ]
        sender = next(iter(ledgers.values()))["sender"]
        hosts = {role: f"the host of {role}" for role in ledgers}
        return _together(ledgers, hosts, findings, sender, f"{OWN_CLOCKS}, and {ANY_REPLICA}")


def _together(
    ledgers: Mapping[str, Any],
    hosts: Mapping[str, str],
    findings: list[dict[str, Any]],
    sender: Any,
    waits_reason: str,
) -> dict[str, Any]:
    """One ledger of those of several hosts, by role; ``hosts``: what each is called. What a request waited on all of
    them together is not told: ``waits_reason``.
    """
    return {
        "findings": sorted(findings, key=lambda finding: not finding["quarantine"]),
        "not_watched": [
            f"{what} ({hosts[role]})" for role, ledger in ledgers.items() for what in ledger["not_watched"]
        ],
        "watched": all(ledger["watched"] for ledger in ledgers.values()),
        "mode": os.environ.get(MODE) or None,
        "waits_ms": None,
        "waits_reason": waits_reason,
        "sender": sender,
        "hosts": ledgers,
    }


def _of_all(waited: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    """What every sender's host was kept from its core for: of no more a late load is the machines' doing."""
    known = [one for one in waited if one is not None]
    if len(known) < len(waited):
        return None
    return {name: min(one[name] for one in known) for name in known[0]}


def reasons(ledger: dict[str, Any]) -> list[Reason]:
    """Why the run doesn't count, for its verdict; what counts of the findings is the user's choice (``MODE``)."""
    mode = ledger.get("mode")
    if not ledger.get("watched", True):
        text = "nobody watched the machine while it was measured: what else happened on it is not known"
        against = [Reason(check="unwatched", text=text)]
    elif mode == NOTE:
        text = f"what else happened on the machine was only noted ({MODE}={NOTE})"
        return [Reason(check="noted", text=text).within(INTERFERENCE, INTERFERENCE)]
    else:
        against = []
    return against + [
        Reason(
            check=finding["kind"], figure=finding["value"], bound=finding.get("bound"), text=finding["text"]
        ).within(INTERFERENCE, INTERFERENCE)
        for finding in ledger.get("findings", [])
        if decides(finding, mode)
    ]


def decides(finding: Mapping[str, Any], mode: str | None) -> bool:
    """Whether a finding makes its run disturbed; ``mode``: the user's choice."""
    return mode != NOTE and (bool(finding["quarantine"]) or mode == "strict")


def _cpu(measured: Measured, findings: list[dict[str, Any]], missing: list[str], waits_unseen: bool) -> None:
    window, recording = measured.window, measured.recording
    of_cores = machine_use(recording, measured.hardware, window.start_ns, window.end_ns)
    cores, busy_s, steal_s = of_cores.cores, of_cores.busy_s, of_cores.steal_s
    # What stands before several servers on other cores than were looked at used none of these.
    between_s: float | None = 0.0

    def grown(source: str, metric: str) -> float | None:
        series = recording.get(source, metric)
        return series.increase(window.start_ns, window.end_ns) if series else None

    if steal_s is None:
        missing.append("steal")
    else:
        ratio = steal_s / window.duration_s / cores
        _judge(
            findings, "steal", ratio, STEAL_WARN_RATIO, STEAL_QUARANTINE_RATIO,
            f"the hypervisor took {ratio:.1%} of the machine's CPU time (at most {STEAL_QUARANTINE_RATIO:.0%})",
        )  # fmt: skip
    server_s, client_s = grown("server", "cpu_s_total"), grown("client", "cpu_s_total")
    if measured.balancer_cores and (not of_cores.own or {*measured.balancer_cores} & {*of_cores.own}):
        between_s = grown("balancer", "cpu_s_total")
    if busy_s is None or server_s is None or client_s is None or between_s is None:
        missing.append(FOREIGN)
        return
    # The kernel's ticks and the CPU clocks are different instruments: a little below zero is zero.
    foreign = max(0.0, busy_s - server_s - client_s - between_s) / window.duration_s
    ratio = foreign / cores
    waited_s = grown("server", "waited_s_total")
    # Where no wait was seen, nobody knows that others took nothing of what they used.
    unseen = waited_s is None and waits_unseen
    _judge(
        findings, "foreign_cpu", ratio, FOREIGN_WARN_RATIO, FOREIGN_WARN_RATIO if unseen else None,
        f"processes that are neither server nor load used {foreign:.2f} of {cores} cores ({ratio:.0%})"
        + (f", and whether server or sender waited for them was not seen (at most {FOREIGN_WARN_RATIO:.0%})"
           if unseen else ""),
    )  # fmt: skip
    if waited_s is None:
        missing.append("waiting for a core")
    elif ratio >= FOREIGN_WARN_RATIO and waited_s + server_s > 0:
        share = waited_s / (waited_s + server_s)
        _judge(
            findings, "waited_for_cpu", share, WAITED_WARN_RATIO, WAITED_QUARANTINE_RATIO,
            f"the server waited for a core in {share:.0%} of the time in which it had work to do (at most "
            f"{WAITED_QUARANTINE_RATIO:.0%}) while other processes used {foreign:.2f} of {cores} cores",
        )  # fmt: skip


def _waits(measured: Measured, findings: list[dict[str, Any]], missing: list[str]) -> dict[str, float] | None:
    """Judge the waits for a core by what they are of the latencies that are reported."""
    from inferbench_tasks.metrics.wait_shares import wait_shares
    from inferbench_tasks.metrics.waiting import foreign_waits

    waits = foreign_waits(measured.recording, measured.window)
    if waits is None:
        missing.append(WAITS)
        return None
    shares = list(wait_shares(waits, measured.window))
    if not shares:
        return None
    worst = max(shares, key=lambda share: share.wait_ms / share.bound_ms)
    # A warning's own sentence must not read like a verdict: what it names is within the bound.
    text = (
        str(worst)
        if worst.wait_ms >= worst.bound_ms
        else f"{worst}: more than half of what would be too much"
    )
    _judge(findings, "foreign_wait", worst.wait_ms, worst.bound_ms / 2, worst.bound_ms, text)
    return {share.name.removeprefix("p"): share.wait_ms for share in shares}


def _clock(measured: Measured, source: str, metric: str, what: str, findings: list[dict[str, Any]]) -> None:
    series = measured.recording.get(source, metric)
    values = series.within(measured.window.start_ns, measured.window.end_ns) if series else None
    if values is None or len(values) < 2 or not values.max():
        return
    ratio = 1 - float(values.min() / values.max())
    _judge(
        findings, f"{source}_clock", ratio, CLOCK_WARN_RATIO, None,
        f"{what} moved between {values.min():.0f} and {values.max():.0f} MHz",
    )  # fmt: skip


def _gpu(measured: Measured, findings: list[dict[str, Any]], missing: list[str]) -> None:
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    if not any(source == "gpu" for source, _ in measured.recording.series):
        missing.append("GPU")
        return
    _gpu_processes(measured, findings, missing)
    held = measured.recording.get("gpu", "held_back")
    if held is None:
        missing.append("GPU throttling")
    else:
        mask = 0
        for value in held.within(start_ns, end_ns):
            mask |= int(value)
        for bit, name in HELD_BACK.items():
            if mask & bit:
                grave = name != "software power cap"  # the normal state of a busy board
                _judge(
                    findings,
                    "gpu_throttling",
                    1.0,
                    1.0,
                    1.0 if grave else None,
                    f"the GPU was held back: {name}",
                )
    errors = measured.recording.get("gpu", "ecc_uncorrected_total")
    grown = errors.increase(start_ns, end_ns) if errors else None
    if grown:
        _judge(findings, "gpu_ecc", grown, 1.0, 1.0, f"{grown:.0f} uncorrected ECC error(s) on the GPU")
    _clock(measured, "gpu", "sm_clock_mhz", "the GPU's clock", findings)


def _gpu_processes(measured: Measured, findings: list[dict[str, Any]], missing: list[str]) -> None:
    def most(source: str, metric: str) -> float | None:
        series = measured.recording.get(source, metric)
        values = series.within(measured.window.start_ns, measured.window.end_ns) if series else ()
        return float(max(values)) if len(values) else None

    processes, foreign = most("gpu", "processes"), most("gpu", "foreign_processes")
    if processes is None:
        missing.append("GPU processes")
    elif foreign is not None:
        _judge(
            findings, "foreign_gpu_process", foreign, 1.0, 1.0,
            f"{foreign:.0f} process(es) used the GPU that are neither the server's nor a neighbour's",
        )  # fmt: skip
    else:  # the PIDs are of another namespace, or an older recording lacks them
        ours, others = most("server", "processes") or 1.0, most("gpu", "beside_processes") or 0.0
        beside = f", its neighbours {others:.0f}" if others else ""
        _judge(
            findings, "foreign_gpu_process", processes, ours + others + 1, ours + others + 1,
            f"{processes:.0f} processes used the GPU, the server has {ours:.0f}{beside}",
        )  # fmt: skip


def _judge(
    findings: list[dict[str, Any]], kind: str, value: float, warn: float, quarantine: float | None, text: str
) -> None:
    if value >= warn:
        grave = quarantine is not None and value >= quarantine
        bound = quarantine if grave else warn
        findings.append({"kind": kind, "value": value, "bound": bound, "quarantine": grave, "text": text})
