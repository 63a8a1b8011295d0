"""Energy per request: measured where something measures it, estimated by a documented method otherwise.

- ``nvml_counter``: the GPU's own energy counter (Volta and later), the whole board. NVIDIA states 5%.
- ``nvml_integrated``: the GPU's power, integrated over its samples by trapezoids: 5% of the reading, more where
  power changes faster than it is sampled.
- ``rapl``: the processor packages' counters, the whole packages, whoever used them. 3%, see Khan et al. 2018,
  "RAPL in Action", and what of it may be another's.
- ``codecarbon_estimate``: codecarbon's curve of power over the machine's load, see ``energy_codecarbon``: 100%.
- ``tdp_estimate``: CPU time of the server x the processor's TDP per core (``configs/hardware.yaml``) x the machine's
  physical per logical cores, for CPU time counts hardware threads, of which several share a core and its watts: what
  the server's work draws, without what an idle machine draws. A model, not a measurement: 60%.

What counts a whole machine (``rapl``, ``codecarbon_estimate``) is a run's figure only where others used next to nothing
meanwhile; it may be too much then by what is stored under ``machine`` (``whole_machine``). Else it stands under
``left_out``, and is compared with nothing.

Methods are said to agree only where one of them measures: two estimates from one TDP confirm nothing.

Never 0 for "not known": then it is None, and ``reason`` says why.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from inferbench_tasks.catalogue import find_hardware
from inferbench_tasks.metrics import energy_codecarbon
from inferbench_tasks.metrics.base import Block, Measured, shared
from inferbench_tasks.metrics.whole_machine import WholeMachine, whole_machine

UNCERTAINTY_RATIO = {
    "nvml_counter": 0.05,
    "nvml_integrated": 0.10,
    "rapl": 0.03,
    "tdp_estimate": 0.60,
    "codecarbon_estimate": energy_codecarbon.UNCERTAINTY_RATIO,
}
#: Those that read a counter or a sensor; the others are models.
MEASURES = ("nvml_counter", "nvml_integrated", "rapl")
#: Those that count all that runs on a machine, and what it draws while nothing does.
OF_THE_MACHINE = ("rapl", "codecarbon_estimate")
#: Those whose error is a factor, the same in whatever one machine (or one GPU's board) does: it drops out of the ratio
#: of two runs. Not so what depends on how fast the power changes, or on how busy all cores are.
FACTORS = {"nvml_counter": "gpu", "rapl": "cpu", "tdp_estimate": "cpu"}
#: The method that counts what the server used, and nothing of what else ran.
OF_THE_SERVER = "tdp_estimate"
SCOPE = {
    "nvml_counter": "the whole GPU board",
    "nvml_integrated": "the whole GPU board",
    "rapl": "all processor packages, idle power and other processes included",
    "tdp_estimate": "the server's share of the processor, without idle power",
    "codecarbon_estimate": energy_codecarbon.SCOPE,
}


class Energy(Block):
    """Energy of an answered request."""

    unit: ClassVar[str] = "J"
    formula: ClassVar[str] = "energy drawn in the window / good answers that arrived in it"
    path: ClassVar[str] = "energy"

    def compute(self, measured: Measured) -> dict[str, Any]:
        """{joule_per_request, method, uncertainty_ratio, scope, power_w, others {method: J}, machine, left_out,
        reason}.

        ``machine``: of a method that counts a whole one {cores, of_cores, others_ratio}, None of others; ``left_out``:
        {method: {joule_per_request, reason}} of what such a method counted of which it isn't known what was the run's.
        """
        if measured.hosts:
            reason = f"the replicas are on {len(measured.hosts)} hosts, and what each of them drew is not added up yet"
            return {"joule_per_request": None, "method": None, "left_out": {}, "reason": reason}
        machine = whole_machine(measured)
        drawn_j: dict[str, float] = {}
        left_out: dict[str, dict[str, Any]] = {}
        reasons = []
        order = (
            ("nvml_counter", "nvml_integrated")
            if measured.device.kind == "gpu"
            else ("rapl", "tdp_estimate", "codecarbon_estimate")
        )
        for method in order:
            if measured.neighbours and method != OF_THE_SERVER:
                joules, reason = None, shared(measured.neighbours, f"it measures {SCOPE[method]}")
            else:
                joules, reason = _METHODS[method](measured)
            if joules is not None and (why := _not_the_runs(method, machine, measured)):
                if measured.requests:
                    left_out[method] = {"joule_per_request": joules / measured.requests, "reason": why}
                joules, reason = None, why
            if joules is not None:
                drawn_j[method] = joules
            elif reason:
                reasons.append(f"{method}: {reason}")
        if not measured.requests:
            reasons.insert(0, "no request was answered in the window")
        if not drawn_j or not measured.requests:
            return {
                "joule_per_request": None,
                "method": None,
                "left_out": left_out,
                "reason": "; ".join(reasons),
            }
        method = next(iter(drawn_j))
        per_request = {name: joules / measured.requests for name, joules in drawn_j.items()}
        uncertain = {
            name: UNCERTAINTY_RATIO[name] + (machine.too_much_ratio if name in OF_THE_MACHINE else 0.0)
            for name in drawn_j
        }
        of_machine = method in OF_THE_MACHINE
        words = machine.words if of_machine else ""
        return {
            "joule_per_request": per_request[method],
            "joule_per_sample": drawn_j[method]
            / float(measured.window.batch_size[measured.window.completed].sum()),
            "method": method,
            "uncertainty_ratio": uncertain[method],
            "scope": f"{SCOPE[method]}: {words}" if words else SCOPE[method],
            "power_w": drawn_j[method] / measured.window.duration_s,
            "others": {name: value for name, value in per_request.items() if name != method},
            "disagreement_ratio": max(per_request.values()) / min(per_request.values()) - 1
            if len(per_request) > 1 and min(per_request.values()) > 0
            else None,
            "methods_agree": _agree(per_request, uncertain),
            "machine": machine.stored() if of_machine else None,
            "left_out": left_out,
            "reason": None,
        }


def _not_the_runs(method: str, machine: WholeMachine, measured: Measured) -> str | None:
    """Why what a method counted is not known to be the run's; None where it may stand for it."""
    if method not in OF_THE_MACHINE:
        return None
    if method == "rapl" and measured.hardware.get("hypervisor"):
        return "this is a virtual machine, and what its host's other machines used is not recorded here"
    return machine.reason


def _agree(per_request: dict[str, float], uncertain: dict[str, float]) -> bool | None:
    """Whether the intervals of all methods meet; None with one method only, or where none of them measures."""
    if len(per_request) < 2 or not any(name in MEASURES for name in per_request):
        return None
    lows = [value * (1 - uncertain[name]) for name, value in per_request.items()]
    highs = [value * (1 + uncertain[name]) for name, value in per_request.items()]
    return max(lows) <= min(highs)


def _nvml_counter(measured: Measured) -> tuple[float | None, str]:
    series = measured.recording.get("gpu", "energy_j_total")
    if series is None:
        return None, _why(measured, "gpu", "this GPU has no energy counter")
    return _not_zero(series.increase(measured.window.start_ns, measured.window.end_ns))


def _nvml_integrated(measured: Measured) -> tuple[float | None, str]:
    series = measured.recording.get("gpu", "power_w")
    if series is None:
        return None, _why(measured, "gpu", "this GPU tells no power")
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    inside = (series.t_ns > start_ns) & (series.t_ns < end_ns)
    if inside.sum() < 3:
        return None, "too few samples of the power"
    if not series.covers(start_ns, end_ns):
        return None, "the samples do not cover the window"
    t_ns = np.concatenate([[start_ns], series.t_ns[inside], [end_ns]])
    watts = np.interp(t_ns, series.t_ns, series.values)
    return _not_zero(float(np.trapezoid(watts, t_ns / 1e9)))


def _rapl(measured: Measured) -> tuple[float | None, str]:
    start_ns, end_ns = measured.window.start_ns, measured.window.end_ns
    series = measured.recording.get("rapl", "package_j_total")
    if series is None:
        return None, _why(measured, "rapl", "no packages")
    joules = series.increase(start_ns, end_ns)
    memory = measured.recording.get("rapl", "dram_j_total")
    memory_j = memory.increase(start_ns, end_ns) if memory else 0.0
    return _not_zero(None if joules is None or memory_j is None else joules + memory_j)


def _tdp_estimate(measured: Measured) -> tuple[float | None, str]:
    cpu_time = measured.recording.get("server", "cpu_s_total")
    cpu_s = cpu_time.increase(measured.window.start_ns, measured.window.end_ns) if cpu_time else None
    if cpu_s is None:
        return None, _why(measured, "server", "the server's CPU time was not sampled")
    name = str(measured.hardware.get("cpu"))
    row = find_hardware(name)
    if row is None or row.watt_per_core is None:
        return None, f"configs/hardware.yaml has no TDP for {name!r}"
    physical, logical = (measured.hardware.get(f"cores_{kind}") for kind in ("physical", "logical"))
    if not physical or not logical:
        return None, "how many hardware threads share a core of this machine is not known"
    return _not_zero(cpu_s * row.watt_per_core * physical / logical)


_METHODS = {
    "nvml_counter": _nvml_counter,
    "nvml_integrated": _nvml_integrated,
    "rapl": _rapl,
    "tdp_estimate": _tdp_estimate,
    "codecarbon_estimate": energy_codecarbon.codecarbon_estimate,
}


def _not_zero(joules: float | None) -> tuple[float | None, str]:
    """A counter that did not move, or did not reach over the window, measured nothing."""
    if joules is None:
        return None, "the samples do not cover the window"
    return (joules, "") if joules > 0 else (None, "the counter did not move")


def _why(measured: Measured, monitor: str, otherwise: str) -> str:
    return str((measured.recording.about.get("unavailable") or {}).get(monitor, otherwise))
