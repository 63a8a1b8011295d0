"""What of a step is computing, preparing and fetching, by differences of runs that differ in where the data lies.

As DS-Analyzer does (Mohan et al., VLDB 2021): computing is the step with data on the device, batches what data in
memory takes beyond it, preparing what warm files take beyond that, fetching what cold files take beyond warm ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.report.views import TrainingView

_HEAD = ["run", "computing, ms", "batches, ms", "preparing, ms", "fetching, ms"]
_NOTE = (
    "Steps of runs that differ in where their data lies, less each other: on the device (computing), in memory "
    "(putting batches together and copying them), warm files (reading from the page cache, decoding, transforming)"
    ", cold files (the disk; what its own cache or that of a virtual machine's host holds is no longer cold). What is "
    "hidden behind computing does not show here, as it costs nothing. In brackets the 95% interval, by the rounds of "
    "both runs: one that has 0 in it shows no stall, and what the machine does from one run to the next is in none."
)


@dataclass(frozen=True)
class Difference:
    """Of two means, ms, with its 95% interval (Welch 1947); None where a run has fewer than three rounds."""

    mean: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        if self.interval is None:
            return f"{number(self.mean)} (no interval)"
        low, high = self.interval
        return f"{number(self.mean)} ({number(low)} to {number(high)})"


def difference(view: TrainingView, less: TrainingView) -> Difference:
    """The mean step of a run less that of another; both have steps."""
    from scipy.special import stdtrit

    means, variances, freedoms = [], [], []
    for timing in (view.timing, less.timing):
        assert timing is not None
        step, rounds = timing["step_ms"], timing.get("rounds") or 0
        means.append(step["mean"])
        if step["ci95"] is not None and rounds >= 3:
            half = (step["ci95"][1] - step["ci95"][0]) / 2
            variances.append((half / float(stdtrit(rounds - 1, 0.975))) ** 2)
            freedoms.append(rounds - 1)
    mean = means[0] - means[1]
    if len(variances) < 2:
        return Difference(mean, None)
    total = sum(variances)
    if not total:
        return Difference(mean, (mean, mean))
    freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(total)
    return Difference(mean, (mean - half, mean + half))


def stalls(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """A row for each training that was run on one machine with its data on the device and elsewhere; [] without any.

    Preparing is known beside a run with its data in memory only: beside one on the device it has the batches in it.
    """
    rows = []
    for places in _groups(views):
        device, memory = places.get("device"), places.get("memory")
        disk, cold = places.get("disk"), places.get("cold")
        if device is None or device.timing is None or len(places) < 2:
            continue
        if memory is None and disk is not None:
            prepared = f"{difference(disk, device)} with batches"
        else:
            prepared = _cell(disk, memory)
        cells = [_cell(memory, device), prepared, _cell(cold, disk)]
        rows.append([device.label, number(device.timing["step_ms"]["mean"]), *cells])
    if not rows:
        return []
    return [
        {
            "title": "Stalls by differences",
            "head": _HEAD,
            "rows": rows,
            "numbers": [1, 2, 3, 4],
            "note": _NOTE,
        }
    ]


def _cell(view: TrainingView | None, less: TrainingView | None) -> str:
    return "–" if view is None or less is None else str(difference(view, less))


def _groups(views: Sequence[TrainingView]) -> list[dict[str, TrainingView]]:
    """Valid runs of one training on one machine, by where their data lies."""
    groups: dict[str, dict[str, TrainingView]] = {}
    for view in views:
        if not view.valid or view.timing is None:
            continue
        data, device = view.job.get("data") or {}, view.result.device
        place = "cold" if data.get("read") == "cold" else str(data.get("where", "disk"))
        rest = {key: value for key, value in view.job.items() if key not in ("data", "name", "description")}
        of = {key: value for key, value in data.items() if key not in ("where", "read")}
        machine = (device.name, device.cores) if device else None
        groups.setdefault(repr((rest, of, machine)), {}).setdefault(place, view)
    return list(groups.values())
