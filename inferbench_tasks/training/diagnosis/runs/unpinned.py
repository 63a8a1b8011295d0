"""Batches go to a GPU from pageable memory, which the driver copies once more before the GPU can take it."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def find(run: Observation) -> Iterator[Cause]:
    """Copying as it was beside the same batch from page-locked memory (the probe ``pinned_copy_ms``).

    The gain is of a mean beside the shortest of some copies: a copy from there can run while the GPU computes.
    """
    pinned_ms, copying = run.probes.get("pinned_copy_ms"), run.phases.get("to_device")
    if pinned_ms is None or copying is None or run.job.loader.pin_memory or not run.job.loads:
        return
    gain_ms = copying.wall_ms - copying.wait_ms - pinned_ms
    if gain_ms <= 0:
        return
    yield Cause(
        rule="unpinned",
        kind="cause",
        sentence=f"Copying batches to the GPU holds it up: {number(copying.wall_ms)} ms from pageable memory, "
        f"{number(pinned_ms)} from page-locked memory.",
        evidence=[
            f"to the device: {number(copying.wall_ms)} ms of a step of {number(run.step_ms)} ms; a batch from "
            f"page-locked memory, measured behind the last epoch: {number(pinned_ms)} ms"
        ],
        remedy="Have the loader pin its batches.",
        cost_s=gain_ms / 1e3,
        changes={"loader.pin_memory": True},
        gain_s=gain_ms / 1e3,
    )
