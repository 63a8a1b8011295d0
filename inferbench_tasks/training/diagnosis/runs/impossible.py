"""A forward pass that is faster than the device's datasheet allows: the clock did not time it."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.peak import FEWER_PRODUCTS, device_flops, least_forward_s


def find(run: Observation) -> Iterator[Cause]:
    """Each timing's forward pass beside the FLOP of a batch (the probe ``forward_flop``) at the device's peak.

    No program reaches the peak, and no algorithm needs fewer than a quarter of the products that are counted (see
    ``training.peak``): what is faster still was not waited for. A CPU's peak is that of the whole processor, of which a
    run has a part, or of as many as it has cores of.
    """
    flop = run.probes.get("forward_flop")
    samples = run.job.samples_per_step
    precision = run.job.train.precision
    peak = device_flops(run.device, precision, run.cores)
    at_least_s = least_s(run)
    if flop is None or peak is None or at_least_s is None:
        return
    for timing, seconds in forward_s(run).items():
        if seconds is None or not 0 < seconds < at_least_s:
            continue
        work = flop * samples
        yield Cause(
            rule="impossible",
            kind="wrong",
            sentence=f"The forward pass of {number(seconds * 1e3)} ms by the timing {timing!r} is impossible: "
            f"{number(work / seconds / 1e12)} TFLOP/s, where {run.device} has {number(peak / 1e12)} by its "
            f"datasheet, of which algorithms that need fewer products make {FEWER_PRODUCTS:g} times as much at most.",
            evidence=[
                f"{number(flop / 1e9)} GFLOP for each of {samples:,} samples, counted; at the peak in "
                f"{precision} and with {1 / FEWER_PRODUCTS:.0%} of the products they take {number(at_least_s * 1e3)} ms"
            ],
            remedy="Time with the device synchronised at every border, or by its own events.",
        )


def least_s(run: Observation) -> float | None:
    """Seconds that a forward pass of a batch takes at least; None where work or peak is unknown (``training.peak``)."""
    flop = run.probes.get("forward_flop")
    work = flop * run.job.samples_per_step if flop else None
    return least_forward_s(run.device, run.job.train.precision, work, run.cores)


def forward_s(run: Observation) -> dict[str, float | None]:
    """The forward pass of a step by each timing that was taken, s: of whole batches, as the last one may be smaller."""
    jade = (run.jade or {}).get("without_warmup") or {}
    events = ((run.events or {}).get("phases") or {}).get("forward") or {}
    forward = run.phases.get("forward")
    return {
        "jade": jade.get("forward"),
        "synchronised": forward.wall_ms / 1e3 if forward else None,
        "events": events["device_ms"] / 1e3 if "device_ms" in events else None,
    }
