"""Clusters beside each other, phase by phase, against the speed that their devices should have."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from inferbench_tasks.training import expected
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.contradiction import log_of
from inferbench_tasks.training.imported.rows import SAME_WORK, Import, TableRow

#: So far from the expectation a device is still as it should be: both factors and times are of single runs.
TOLERANCE_RATIO = 0.15
#: The work of the device, and that of the host, which no factor of a device speaks of.
_DEVICE, _HOST = ("forward", "backward"), ("loading",)
#: A host's phase this many times longer, and longer by so much of the step, is what holds the slower cluster up.
_LONGER, _LEAST_SHARE = 2.0, 0.05


def find(content: Import) -> Iterator[Cause]:
    """Rows of the same work on clusters and devices that ``expected_speed.yaml`` sets beside each other; a device of
    one name that it has no factor for is to be as fast on every cluster.
    """
    counts = {id(row): _devices(row, content) for row in content.rows}

    @cache  # of many pairs of rows few are of other devices
    def expectation(device: str, of: str, count: int, precision: str | None) -> expected.Expectation | None:
        return expected.expectation(device, of, count=count, precision=precision)

    for slow, fast in _pairs(content):
        count = counts[id(slow)]
        names = (f"{slow.cluster}/{slow.device}", slow.device), (f"{fast.cluster}/{fast.device}", fast.device)
        should = next(
            (
                found
                for name in names[0]
                for other in names[1]
                if (found := expectation(name, other, count, slow.precision))
            ),
            None,
        )
        if should is None or counts[id(fast)] != count or not _is_slower(slow, fast, should.speed):
            continue
        yield _compare(slow, fast, 1 / should.speed, should.steps, count)


def _is_slower(row: TableRow, other: TableRow, speed: float) -> bool:
    """Whether it is the one to be set beside the other: by its device, of equal ones by its step."""
    if speed != 1:
        return speed < 1
    return (row.step_s, row.source) > (other.step_s, other.source)


def _compare(slow: TableRow, fast: TableRow, should: float, steps: tuple[str, ...], count: int) -> Cause:
    """``should``: how many times longer the device's phases should take."""
    ratios = {
        phase: time / beside
        for phase in (*_DEVICE, *_HOST)
        if (time := slow.time_s(phase)) and (beside := fast.time_s(phase))
    }
    device = {phase: ratios[phase] for phase in _DEVICE if phase in ratios}
    as_expected = {phase: abs(ratio / should - 1) <= TOLERANCE_RATIO for phase, ratio in device.items()}
    parts = [
        f"{phase} {ratio:.3g} x, expected {should:.3g} x: "
        f"{'as it should be' if as_expected[phase] else _off(ratio, should)}"
        for phase, ratio in device.items()
    ]
    more_s = {phase: (slow.time_s(phase) or 0.0) - (fast.time_s(phase) or 0.0) for phase in ratios}
    held = [
        phase
        for phase in _HOST
        if ratios.get(phase, 0.0) >= max(_LONGER, should * (1 + TOLERANCE_RATIO))
        and more_s[phase] >= _LEAST_SHARE * slow.step_s
    ]
    parts += [f"{phase} {ratios[phase]:.3g} x: the input pipeline" for phase in held]
    evidence = [f"{slow.source} beside {fast.source}", *(steps or ("one device, by its name",))]
    if fast.step_s:
        whole = slow.step_s / fast.step_s
        evidence.append(f"all columns: {slow.step_s:.4f} s beside {fast.step_s:.4f} s, {whole:.3g} x")
    fine = all(as_expected.values())
    work = f"{slow.data}, {slow.benchmark.replace('_', ' ')}, {count} device(s)"
    # Of the device what is beyond its factor; no factor speaks of the host.
    off_s = [(slow.time_s(phase) or 0.0) - should * (fast.time_s(phase) or 0.0) for phase in device]
    cost_s = sum(max(0.0, seconds) for seconds in (*off_s, *(more_s[phase] for phase in held)))
    return Cause(
        rule="expected_device",
        kind="comparison",
        sentence=f"{slow.cluster} {slow.device} beside {fast.cluster} {fast.device} ({work}): {'; '.join(parts)}.",
        evidence=evidence,
        remedy=_remedy(fine, bool(held)),
        cost_s=cost_s if held or not fine else None,
    )


def _off(ratio: float, should: float) -> str:
    return (
        f"{ratio / should:.1f} times slower than it should be"
        if ratio > should
        else "faster than it should be"
    )


def _remedy(device_fine: bool, loading: bool) -> str | None:
    if device_fine and loading:
        return "Leave the device; give the input pipeline cores, or a smaller load for each."
    if not device_fine:
        return "See first whether the processes have their cores: phases of the device wait for the host too."
    return None


def _pairs(content: Import) -> Iterator[tuple[TableRow, TableRow]]:
    """Inference and training; the forward time of smooth inference is none."""
    same = (*SAME_WORK, "data", "benchmark")
    rows = [row for row in content.rows if row.benchmark != "smooth_inference"]
    for slow in rows:
        for fast in rows:
            other = (slow.cluster, slow.device) != (fast.cluster, fast.device)
            if other and all(getattr(slow, name) == getattr(fast, name) for name in same):
                yield slow, fast


def _devices(row: TableRow, content: Import) -> int:
    """As its log says, where there is one."""
    log = log_of(row, content.logs)
    return log.devices if log else row.devices
