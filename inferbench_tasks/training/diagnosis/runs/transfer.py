"""Getting batches of loader processes takes longer than making them."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.pipeline import Pipeline


def find(run: Observation) -> Iterator[Cause]:
    """A step with loader processes beside one without: what a batch that lies ready still takes.

    The remedy gains what computing takes longer beside these processes, too, and the waits for a core that they cause.
    """
    pipeline = run.pipeline
    if pipeline is None or not run.workers:
        return
    as_crowded = pipeline.of(rest_ms=pipeline.rest_ms + pipeline.crowded_ms, crowded_ms=0.0)
    cost_ms = as_crowded.step_ms - as_crowded.of(workers=0).step_ms
    if cost_ms <= 0:
        return
    alone_ms = pipeline.of(workers=0).step_ms
    room = run.processes * run.threads <= run.cores  # then nobody is left to wait for
    gain_ms = (run.step_ms if room else pipeline.step_ms) - alone_ms
    if gain_ms <= 0:
        return
    yield Cause(
        rule="transfer",
        kind="cause",
        sentence=f"Handing batches over holds it up: a batch takes {number(pipeline.making_ms)} ms to be made, and "
        f"{number(pipeline.hand_over_ms or 0.0)} ms to get from a loader process into the rank.",
        evidence=[
            f"loading takes {number(run.phases['loading'].wall_ms)} ms of a step, though {run.workers} process(es) "
            f"make a batch each {number(pipeline.making_ms / run.workers)} ms and the rest of a step takes "
            f"{number(pipeline.rest_ms + pipeline.crowded_ms)}",
            *_stamped(run),
            *_crowded(pipeline),
        ],
        remedy="Let the ranks load by themselves.",
        cost_s=cost_ms / 1e3,
        changes={"loader.workers": 0},
        gain_s=gain_ms / 1e3,
    )


def _stamped(run: Observation) -> list[str]:
    """What its own stamps say of a batch's way; nothing of older results."""
    batch = run.batch
    if batch is None or batch.serialise_ms is None or batch.deserialise_ms is None:
        return []
    pinned = run.job.loader.pin_memory
    who = "by torch's thread beside it, which copies it into page-locked memory" if pinned else "by the rank"
    return [
        f"a batch is serialised in {number(batch.serialise_ms)} ms by its loader process and deserialised in "
        f"{number(batch.deserialise_ms)} ms {who}"
    ]


def _crowded(pipeline: Pipeline) -> list[str]:
    if not pipeline.crowded_ms:
        return []
    return [f"computing takes {number(pipeline.crowded_ms)} ms longer than by itself, with nothing beside it"]
