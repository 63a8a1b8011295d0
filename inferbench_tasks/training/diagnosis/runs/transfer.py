"""Getting batches of loader processes takes longer than making them."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def find(run: Observation) -> Iterator[Cause]:
    """A step with loader processes beside one without: what a batch that lies ready still takes."""
    pipeline = run.pipeline
    if pipeline is None or not run.workers:
        return
    alone = pipeline.of(workers=0)
    gain_ms = pipeline.step_ms - alone.step_ms
    if gain_ms <= 0:
        return
    yield Cause(
        rule="transfer",
        kind="cause",
        sentence=f"Handing batches over holds it up: a batch takes {pipeline.making_ms:.3g} ms to be made, and "
        f"{pipeline.hand_over_ms or 0.0:.3g} ms to get from a loader process into the rank.",
        evidence=[
            f"loading takes {run.phases['loading'].wall_ms:.3g} ms of a step, though {run.workers} process(es) make a "
            f"batch each {pipeline.making_ms / run.workers:.3g} ms and the rest of a step takes {pipeline.rest_ms:.3g}",
        ],
        remedy="Let the ranks load by themselves.",
        cost_s=gain_ms / 1e3,
        changes={"loader.workers": 0},
        gain_s=gain_ms / 1e3,
    )
