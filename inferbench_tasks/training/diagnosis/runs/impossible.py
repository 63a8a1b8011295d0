"""A forward pass that is faster than the device's datasheet allows: the clock did not time it."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.peak import least_forward_s


def find(run: Observation) -> Iterator[Cause]:
    """Each timing's forward pass beside the FLOP of a batch (the probe ``forward_flop``) at the device's peak.

    The FLOP are at least those that are counted, and no program reaches the peak: what is faster still was not waited
    for. A CPU's peak is that of the whole processor, of which a run has a part.
    """
    flop = run.probes.get("forward_flop")
    samples = run.job.samples_per_step
    least_s = least_forward_s(run.device, run.job.train.precision, flop * samples if flop else None)
    if flop is None or least_s is None:
        return
    for timing, seconds in forward_s(run).items():
        if seconds is None or not 0 < seconds < least_s:
            continue
        work = flop * samples
        yield Cause(
            rule="impossible",
            kind="wrong",
            sentence=f"The forward pass of {number(seconds * 1e3)} ms by the timing {timing!r} is impossible: "
            f"{number(work / seconds / 1e12)} TFLOP/s, where {run.device} has {number(work / least_s / 1e12)} by its "
            "datasheet.",
            evidence=[
                f"{number(flop / 1e9)} GFLOP for each of {samples:,} samples, counted; at the peak in "
                f"{run.job.train.precision} they take {number(least_s * 1e3)} ms"
            ],
            remedy="Time with the device synchronised at every border, or by its own events.",
        )


def forward_s(run: Observation) -> dict[str, float | None]:
    """The forward pass of a step by each timing that was taken, s."""
    jade = (run.jade or {}).get("columns") or {}
    events = ((run.events or {}).get("phases") or {}).get("forward") or {}
    forward = run.phases.get("forward")
    return {
        "jade": jade.get("forward"),
        "synchronised": forward.wall_ms / 1e3 if forward else None,
        "events": events["device_ms"] / 1e3 if "device_ms" in events else None,
    }
