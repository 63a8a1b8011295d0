"""Reading the storage is slower than what the ranks need."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.runs.memory import stalled_making_ms


def find(run: Observation) -> Iterator[Cause]:
    """The pipeline as it is beside one whose reading takes no time: the fetch stall of DS-Analyzer.

    What is read again for want of memory is the rule ``memory``'s, and none of it: data that is held in memory makes
    that worse. Where it is most of the reading nothing is said of the rest. What lies in memory is read from nowhere.
    """
    pipeline, batch = run.pipeline, run.batch
    if pipeline is None or batch is None or not batch.read_ms or run.job.data.where == "memory":
        return
    again_ms = stalled_making_ms(run)
    if again_ms > batch.read_ms / 2:
        return
    read_ms = batch.read_ms - again_ms
    # What reads, or waits for memory, does not compute: CPU time is that of preparing, as far as it fits into that.
    left_ms = batch.making_ms - read_ms
    read = pipeline.of(making_ms=left_ms, making_cpu_ms=min(batch.cpu_ms, batch.making_ms - batch.read_ms))
    cost_ms = pipeline.step_ms - read.step_ms
    data = run.job.data
    where = "with cold reads" if data.read == "cold" else "from the page cache"
    # In memory lies what is made once; what is made anew each time is read again.
    kept = data.where == "disk" and not data.augment
    kept_ms = batch.collate_ms + again_ms
    memory = pipeline.of(making_ms=kept_ms, making_cpu_ms=min(batch.cpu_ms, batch.collate_ms))
    changes = {"data.where": "memory"} | ({"data.read": "warm"} if data.read == "cold" else {})
    yield Cause(
        rule="fetch",
        kind="cause",
        sentence=f"Reading holds it up: of the {number(batch.making_ms)} ms that a batch takes "
        f"{number(read_ms)} ms are reading ({data.kind}, {where}).",
        evidence=[
            f"reading a batch: {number(read_ms)} ms; the rest of making it: {number(left_ms)} ms; waits for a core "
            "apart" + (f"; {number(again_ms)} ms of it for want of memory" if again_ms else ""),
            f"with {pipeline.workers} loader process(es) the step takes {number(pipeline.step_ms)} ms by that, and "
            f"{number(read.step_ms)} ms if reading took no time",
        ],
        remedy="Keep the data in memory"
        + ("." if kept else ", or on a faster storage; augmented images are read anew."),
        cost_s=cost_ms / 1e3,
        changes=changes if kept else {},
        gain_s=max(0.0, pipeline.step_ms - memory.step_ms) / 1e3 if kept else cost_ms / 1e3,
    )
