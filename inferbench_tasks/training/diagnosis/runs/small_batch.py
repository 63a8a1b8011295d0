"""Most of a step is the same for any number of samples: launching the work, the optimiser, the loop around them."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.runs import denormals
from inferbench_tasks.training.diagnosis.runs.threads import take_turns
from inferbench_tasks.training.probes import fixed_of
from inferbench_tasks.training.statistics import LEAST_STEPS

#: Of a step without loading and waits so much must not depend on the samples for it to be the cause.
FIXED_SHARE = 0.5
#: With the remedy so much of it is left.
_LEFT_SHARE = 0.1


def find(run: Observation) -> Iterator[Cause]:
    """By forward and, in a training, backward of the rank by itself with its batch and with a larger one (the probes
    ``alone_ms``, ``larger_ms``), the optimiser and what no phase explains.

    The gain is of a step with as many samples as now.
    """
    alone_ms, larger_ms, tried = (run.probes.get(name) for name in ("alone_ms", "larger_ms", "larger_batch"))
    size = run.job.train.batch_size
    if alone_ms is None or larger_ms is None or tried is None or tried <= size or take_turns(run):
        return  # threads that wait for each other's turn do so in each operation, however many samples it is of
    # Reading the clocks is no part of the training, though of its measured steps.
    between_ms = max(0.0, run.step_ms - sum(phase.wall_ms for phase in run.phases.values()) - run.clocks_ms)
    same_ms = fixed_of(size, alone_ms, int(tried), larger_ms)
    optimiser = run.phases.get("optimiser")
    # Of several threads waits are sums, which no wall time has room for.
    waited_ms = optimiser.wait_ms if optimiser and run.threads == 1 else 0.0
    # What denormal numbers cost is the same for any batch, and no reason for a larger one.
    denormals_ms = denormals.cost_ms(run)
    optimiser_ms = optimiser.wall_ms - waited_ms - denormals_ms if optimiser else 0.0
    fixed_ms = same_ms + optimiser_ms + between_ms
    loading = run.phases.get("loading")
    others_ms = (loading.wall_ms if loading else 0.0) + run.rest_wait_ms + denormals_ms + run.clocks_ms
    computing_ms = run.step_ms - others_ms
    if fixed_ms < FIXED_SHARE * computing_ms:
        return
    sample_ms = max(0.0, larger_ms - alone_ms) / (tried - size)
    larger = _larger(run, fixed_ms, sample_ms, int(tried))
    gain_ms = run.step_ms - _step_ms(run, larger, sample_ms) * size / larger
    if larger <= size or gain_ms <= 0:
        return
    of_optimiser = [f"optimiser: {number(optimiser_ms)} ms"] if optimiser else []
    advice = f"Take batches of {larger}"
    if run.job.train.benchmark == "train":
        advice = f"Train with batches of {larger}, and see whether it learns as well"
    yield Cause(
        rule="small_batch",
        kind="cause",
        sentence=f"Batches of {size} are too small: {number(fixed_ms)} of the {number(computing_ms)} ms that a step "
        "computes are the same for any number of samples.",
        evidence=[
            f"by itself a batch of {size} takes {number(alone_ms)} ms, one of {tried:g} {number(larger_ms)}: "
            f"{number(same_ms)} ms beside what grows with the samples",
            "; ".join([*of_optimiser, f"between the phases: {number(between_ms)} ms"]),
        ],
        remedy=f"{advice}: a step of {larger} samples replaces {number(larger / size)} of now.",
        cost_s=gain_ms / 1e3,
        changes={"train.batch_size": larger},
        gain_s=gain_ms / 1e3,
    )


def _step_ms(run: Observation, samples: int, sample_ms: float) -> float:
    """The step with so many: each takes as long to be computed, to be made, to be copied to a device, and to be handed
    over by a loader process, as one of the others.
    """
    size = run.job.train.batch_size
    copying = run.phases.get("to_device") if run.on_gpu else None
    copied_ms = copying.wall_ms / size if copying else 0.0
    computed_ms = (sample_ms + copied_ms) * (samples - size)
    pipeline = run.pipeline
    if pipeline is None:
        return run.step_ms + computed_ms
    hand_over_ms = pipeline.hand_over_ms or 0.0
    larger = pipeline.of(
        making_ms=pipeline.making_ms * samples / size,
        making_cpu_ms=pipeline.making_cpu_ms * samples / size,
        rest_ms=pipeline.rest_ms + computed_ms,
        rest_cpu_ms=pipeline.rest_cpu_ms + computed_ms,
        hand_over_ms=hand_over_ms + _handed_over_ms(run) * (samples - size),
    )
    return run.step_ms + larger.step_ms - pipeline.step_ms


def _handed_over_ms(run: Observation) -> float:
    """What getting a batch that lies ready takes longer for each sample, by the probes ``ready_ms`` and
    ``larger_ready_ms``; 0 without loader processes and without these probes.
    """
    ready_ms, larger_ms, tried = (
        run.probes.get(name) for name in ("ready_ms", "larger_ready_ms", "larger_batch")
    )
    if ready_ms is None or larger_ms is None or tried is None:
        return 0.0
    return max(0.0, larger_ms - ready_ms) / (tried - run.job.train.batch_size)


def _larger(run: Observation, fixed_ms: float, sample_ms: float, most: int) -> int:
    """The batch doubled until little is fixed, at most to the one that was tried, while the epochs keep steps enough
    for a figure.
    """
    job, size = run.job, run.job.train.batch_size
    while fixed_ms > _LEFT_SHARE * (fixed_ms + sample_ms * size) and 2 * size <= most:
        train = job.train.model_copy(update={"batch_size": 2 * size})
        if job.model_copy(update={"train": train}).measured_steps < LEAST_STEPS:
            break
        size *= 2
    return size
