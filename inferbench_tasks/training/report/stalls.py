"""The report's table of what of a step is computing, preparing and fetching: see ``diagnosis.stalls``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis import stalls as by_runs
from inferbench_tasks.training.diagnosis.stalls import Difference
from inferbench_tasks.training.report.views import TrainingView

_HEAD = ["run", "computing, ms", "batches, ms", "preparing, ms", "fetching, ms"]
_NOTE = (
    "Steps of runs that differ in where their data lies, less each other: on the device (computing), in memory "
    "(putting batches together and copying them), warm files (reading from the page cache, decoding, transforming)"
    ", cold files (the disk; what its own cache or that of a virtual machine's host holds is no longer cold). What is "
    "hidden behind computing does not show here, as it costs nothing. In brackets the 95% interval, by the rounds of "
    "both runs: one that has 0 in it shows no stall, and what the machine does from one run to the next is in none."
)


def difference(view: TrainingView, less: TrainingView) -> Difference:
    """The mean step of a run less that of another; both have steps."""
    assert view.timing is not None and less.timing is not None
    return by_runs.difference(view.timing, less.timing)


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
        training = by_runs.training_of(view.result, view.job)
        groups.setdefault(training, {}).setdefault(by_runs.place_in(view.job), view)
    return list(groups.values())
