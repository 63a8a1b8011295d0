"""Reading the storage is slower than what the ranks need."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def find(run: Observation) -> Iterator[Cause]:
    """The pipeline as it is beside one whose reading takes no time: the fetch stall of DS-Analyzer."""
    pipeline, batch = run.pipeline, run.batch
    if pipeline is None or batch is None or not batch.read_ms:
        return
    # What reads does not compute: CPU time is that of preparing, as far as it fits into what is left.
    left_ms = batch.making_ms - batch.read_ms
    read = pipeline.of(making_ms=left_ms, making_cpu_ms=min(batch.cpu_ms, left_ms))
    cost_ms = pipeline.step_ms - read.step_ms
    data = run.job.data
    where = "with cold reads" if data.read == "cold" else "from the page cache"
    # In memory lies what is made once; what is made anew each time is read again.
    kept = data.where == "disk" and not data.augment
    memory = pipeline.of(making_ms=batch.collate_ms, making_cpu_ms=min(batch.cpu_ms, batch.collate_ms))
    changes = {"data.where": "memory"} | ({"data.read": "warm"} if data.read == "cold" else {})
    yield Cause(
        rule="fetch",
        kind="cause",
        sentence=f"Reading holds it up: of the {batch.making_ms:.3g} ms that a batch takes {batch.read_ms:.3g} ms are "
        f"reading ({data.kind}, {where}).",
        evidence=[
            f"reading a batch: {batch.read_ms:.3g} ms; the rest of making it: {left_ms:.3g} ms; waits for a core apart",
            f"with {pipeline.workers} loader process(es) the step takes {pipeline.step_ms:.3g} ms by that, and "
            f"{read.step_ms:.3g} ms if reading took no time",
        ],
        remedy="Keep the data in memory"
        + ("." if kept else ", or on a faster storage; augmented images are read anew."),
        cost_s=cost_ms / 1e3,
        changes=changes if kept else {},
        gain_s=max(0.0, pipeline.step_ms - memory.step_ms) / 1e3 if kept else cost_ms / 1e3,
    )
