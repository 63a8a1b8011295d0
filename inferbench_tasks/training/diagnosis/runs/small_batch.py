"""Most of a step is the same for any number of samples: launching the work, the optimiser, the loop around them."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.runs.threads import take_turns
from inferbench_tasks.training.statistics import LEAST_STEPS

#: Of a step without loading and waits so much must not depend on the samples for it to be the cause.
FIXED_SHARE = 0.5
#: With the remedy so much of it is left.
_LEFT_SHARE = 0.1
#: The most that a submission may have.
_MOST_SAMPLES = 4096


def find(run: Observation) -> Iterator[Cause]:
    """By forward and backward of two batch sizes (the probe ``fixed_ms``), the optimiser and what no phase explains.

    The gain is of a step with as many samples as now.
    """
    probed_ms = run.probes.get("fixed_ms")
    if probed_ms is None or take_turns(run):
        return  # threads that wait for each other's turn do so in each operation, however many samples it is of
    explained_ms = sum(phase.wall_ms for phase in run.phases.values())
    optimiser = run.phases.get("optimiser")
    # Of several threads waits are sums, which no wall time has room for.
    waited_ms = optimiser.wait_ms if optimiser and run.threads == 1 else 0.0
    optimiser_ms = optimiser.wall_ms - waited_ms if optimiser else 0.0
    fixed_ms = probed_ms + optimiser_ms + max(0.0, run.step_ms - explained_ms)
    loading = run.phases.get("loading")
    computing_ms = run.step_ms - (loading.wall_ms if loading else 0.0) - run.rest_wait_ms
    if fixed_ms < FIXED_SHARE * computing_ms:
        return
    size = run.job.train.batch_size
    larger = _larger(run, fixed_ms, max(computing_ms - fixed_ms, 1e-6) / size)
    if larger <= size:
        return
    gain_ms = fixed_ms * (1 - size / larger)
    yield Cause(
        rule="small_batch",
        kind="cause",
        sentence=f"Batches of {size} are too small: {number(fixed_ms)} of the {number(computing_ms)} ms that a step "
        "computes are the same for any number of samples.",
        evidence=[
            f"forward and backward beside what grows with the samples: {number(probed_ms)} ms, by two batch sizes",
            f"optimiser: {number(optimiser_ms)} ms; between the phases: "
            f"{number(max(0.0, run.step_ms - explained_ms))} ms",
        ],
        remedy=f"Train with batches of {larger}, and see whether it learns as well: a step of {larger} samples "
        f"replaces {number(larger / size)} of now.",
        cost_s=gain_ms / 1e3,
        changes={"train.batch_size": larger},
        gain_s=gain_ms / 1e3,
    )


def _larger(run: Observation, fixed_ms: float, sample_ms: float) -> int:
    """The batch doubled until little is fixed, while the epochs keep steps enough for a figure."""
    job, size = run.job, run.job.train.batch_size
    while fixed_ms > _LEFT_SHARE * (fixed_ms + sample_ms * size) and 2 * size <= _MOST_SAMPLES:
        train = job.train.model_copy(update={"batch_size": 2 * size})
        if job.model_copy(update={"train": train}).measured_steps < LEAST_STEPS:
            break
        size *= 2
    return size
