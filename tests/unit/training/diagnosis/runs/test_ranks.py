"""Causes between ranks, and steps that are too small: with steps of known times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Batch, Observation, PhaseTimes, Steps
from inferbench_tasks.training.diagnosis.runs import denormals, small_batch, straggler
from inferbench_tasks.training.diagnosis.thread_times import stopped_ratio
from inferbench_tasks.training.job import TrainingJob
from tests.unit.training.diagnosis.observations import first, observe

COUNT = 60
PHASES = ("loading", "to_device", "forward", "loss", "backward", "optimiser")


def steps(own_ms: np.ndarray, backward_ms: float, backward_cpu_ms: float, seed: int = 0) -> Steps:
    """``own_ms``: of optimiser in each step, with noise of 5%."""
    noise = 1 + 0.05 * np.random.default_rng(seed).standard_normal(COUNT)
    times = {f"{phase}_{of}_ns": np.zeros(COUNT) for phase in PHASES for of in ("wall", "cpu", "wait")}
    times["optimiser_wall_ns"] = times["optimiser_cpu_ns"] = own_ms * noise * 1e6
    times["backward_wall_ns"] = np.full(COUNT, backward_ms * 1e6)
    times["backward_cpu_ns"] = np.full(COUNT, backward_cpu_ms * 1e6)
    return {"step": np.arange(COUNT, dtype=np.float64), **times}


def two(one: Steps, other: Steps) -> Observation:
    """Two ranks of 10 ms each, with a core for each."""
    return observe(None, loading_ms=0, processes=2, cores=2, ranks=(one, other))


def test_the_rank_that_is_slower_is_the_straggler() -> None:
    """5 ms instead of 4 in the optimiser, and as much more of computing in backward: 10 instead of 8."""
    run = two(steps(np.full(COUNT, 4.0), 5.0, 4.0, 1), steps(np.full(COUNT, 5.0), 5.0, 5.0, 2))
    cause = first(run)
    assert cause.rule == "straggler" and cause.sentence.startswith("Rank 1 is a straggler all the time")
    assert cause.cost_s == pytest.approx(0.002, rel=0.1)
    assert "rank 0 1, rank 1 0" in cause.evidence[2]


def test_a_straggler_is_told_with_the_step_from_which_on() -> None:
    """From step 25 on its optimiser takes 4 ms more, and its cost is that of all steps."""
    late = np.where(np.arange(COUNT) < 25, 4.0, 8.0)
    cause = first(two(steps(late, 4.0, 4.0, 1), steps(np.full(COUNT, 4.0), 4.0, 4.0, 2)))
    assert cause.rule == "straggler" and cause.sentence.startswith(
        "Rank 0 is a straggler since measured step 25"
    )
    assert cause.cost_s == pytest.approx(0.004 * 35 / 60, rel=0.1)


def test_twenty_pairs_of_equal_ranks_have_no_straggler() -> None:
    """Noise of 5% in each step is none."""
    for seed in range(20):
        pair = (
            steps(np.full(COUNT, 4.0), 4.0, 4.0, 2 * seed),
            steps(np.full(COUNT, 4.0), 4.0, 4.0, 2 * seed + 1),
        )
        assert causes_of(two(*pair)) == []


def equal_ranks(count: int, ranks: int, rng: np.random.Generator) -> Observation:
    """Ranks whose steps take 4 ms on average, and vary by half of it from step to step (gamma)."""
    raw = []
    for _ in range(ranks):
        of = {f"optimiser_{name}_ns": np.zeros(count) for name in ("wall", "cpu", "wait")}
        raw.append({"step": np.arange(count, dtype=np.float64), **of})
        raw[-1]["optimiser_wall_ns"] = raw[-1]["optimiser_cpu_ns"] = rng.gamma(4.0, 1.0, count) * 1e6
    return observe(None, loading_ms=0, processes=ranks, cores=ranks, ranks=tuple(raw))


@pytest.mark.parametrize(("count", "ranks"), [(30, 2), (33, 8), (60, 2), (120, 4)])
def test_equal_ranks_have_a_straggler_no_more_often_than_stated(count: int, ranks: int) -> None:
    """At most 6 of 2,000 runs where 2 are stated (0.1%; 7 or more of 2,000 have a chance of 0.5%)."""
    rng = np.random.default_rng(count * ranks)
    alarms = sum(bool(list(straggler.find(equal_ranks(count, ranks, rng)))) for _ in range(2000))
    assert alarms <= 6


def test_a_straggler_at_80_percent_is_found_in_fifty_steps() -> None:
    """5 ms beside 4, each step 10% off: in 20 of 20 runs, and always that rank."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        run = equal_ranks(50, 2, rng)
        for rank, mean_ms in enumerate((4.0, 5.0)):
            of = run.ranks[rank]
            assert isinstance(of, dict)
            of["optimiser_wall_ns"] = mean_ms * (1 + 0.1 * rng.standard_normal(50)) * 1e6
            of["optimiser_cpu_ns"] = of["optimiser_wall_ns"]
        (cause,) = straggler.find(run)
        assert cause.sentence.startswith("Rank 1 ")


def stopped(share: float, seed: int, backward_ms: float) -> Steps:
    """A rank that computes 4 ms in the optimiser and 4 in backward, and is stopped for about that share of its time."""
    raw = steps(np.full(COUNT, 4.0), backward_ms, 4.0, seed)
    assert isinstance(raw, dict)
    stops = np.random.default_rng(100 + seed).normal(share / (1 - share), 0.2 * share, COUNT)
    raw["optimiser_wall_ns"] = raw["optimiser_cpu_ns"] * (1 + np.maximum(0.0, stops))
    return raw


def with_stops(count: int, shares: tuple[float, float], rng: np.random.Generator) -> Observation:
    """Two ranks that compute 4 ms a step, 5% off, and are stopped for these shares of each 2 ms, from any moment on."""
    run = equal_ranks(count, 2, rng)
    for of, share in zip(run.ranks, shares, strict=True):
        assert isinstance(of, dict)
        own_ns = 4e6 * (1 + 0.05 * rng.standard_normal(count))
        stops = rng.binomial(2, 0.5 + share / 2, count) + (own_ns > 4e6)
        of["optimiser_cpu_ns"] = own_ns
        of["optimiser_wall_ns"] = own_ns + stops * share * 2e6
    return run


def test_a_rank_that_is_stopped_for_a_fifth_of_its_time_is_found_in_fifty_steps() -> None:
    """In 20 of 20 runs of 48 steps: how many pieces of its stops a step has is chance, that it has some is not."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        (cause,) = straggler.find(with_stops(48, (0.0, 0.2), rng))
        assert cause.rank == 1


def test_ranks_that_are_stopped_alike_have_no_straggler() -> None:
    """Both for a fifth of their time: at most 2 of 2,000 runs, where 0.2 are stated."""
    rng = np.random.default_rng(8)
    assert sum(bool(list(straggler.find(with_stops(48, (0.2, 0.2), rng)))) for _ in range(2000)) <= 2


def test_stops_of_a_few_steps_are_no_straggler() -> None:
    """Ten steps of 48 in which one rank is stopped for 8 ms: a machine's other work, which may hit either."""
    run = with_stops(48, (0.0, 0.0), np.random.default_rng(9))
    of = run.ranks[1]
    assert isinstance(of, dict)
    of["optimiser_wall_ns"][5:45:4] += 8e6
    assert list(straggler.find(run)) == []


def test_what_disturbed_a_rank_once_is_no_straggler() -> None:
    """100 steps of 300 in which a hypervisor takes 8 ms each; the 100 after them are free of it."""
    run = with_stops(300, (0.0, 0.0), np.random.default_rng(10))
    of = run.ranks[1]
    assert isinstance(of, dict)
    of["optimiser_wall_ns"][100:200] += 8e6
    assert list(straggler.find(run)) == []


def test_a_rank_that_is_stopped_is_the_straggler_and_no_exchange() -> None:
    """Half of its time: 8 ms of its own become 16. It is blocked 4 ms in backward, the other 8: no link is slow."""
    cause, *others = causes_of(two(steps(np.full(COUNT, 4.0), 12.0, 4.0, 1), stopped(0.5, 2, 8.0)))
    assert cause.rule == "straggler" and cause.sentence.startswith(
        "Rank 1 is a straggler all the time: it takes 2."
    )
    assert cause.cost_s == pytest.approx(0.008, rel=0.1) and others == []
    assert "rank 0 0, rank 1 49.9" in cause.evidence[1]


def test_a_slow_link_between_a_stopped_rank_and_another_is_still_seen() -> None:
    """Blocked 15 ms of 19 in backward, of which half of 19 are the stops: 5.5 are the exchange."""
    of = {
        cause.rule: cause
        for cause in causes_of(two(steps(np.full(COUNT, 4.0), 19.0, 4.0, 1), stopped(0.5, 2, 19.0)))
    }
    assert of["exchange"].cost_s == pytest.approx(0.0055, rel=0.05)


def test_a_single_long_step_is_no_straggler() -> None:
    """One of 100 ms among 60 makes the mean longer, and tells nothing."""
    once = np.full(COUNT, 4.0)
    once[30] = 100.0
    run = two(steps(once, 4.0, 4.0, 1), steps(np.full(COUNT, 4.0), 4.0, 4.0, 2))
    assert list(straggler.find(run)) == []


def test_what_all_ranks_wait_for_is_the_exchange() -> None:
    """One waits 3 ms in backward and the other 5: 3 are the exchange; batches of twice the size halve it."""
    run = two(steps(np.full(COUNT, 4.0), 7.0, 4.0, 1), steps(np.full(COUNT, 4.0), 9.0, 4.0, 2))
    cause = first(run)
    assert cause.rule == "exchange" and cause.cost_s == pytest.approx(0.003)
    assert cause.gain_s == pytest.approx(0.0015)


def test_where_no_waits_for_a_core_are_told_nobody_knows_the_exchange() -> None:
    """The 3 and 5 ms of before may be waits for a core: no cause, and of a straggler no figure for them."""
    untold: list[Steps] = []
    for own_ms, backward_ms in ((4.0, 7.0), (8.0, 9.0)):
        raw = steps(np.full(COUNT, own_ms), backward_ms, 4.0, len(untold))
        untold.append({**raw, **{f"{phase}_wait_ns": np.full(COUNT, np.nan) for phase in PHASES}})
    (cause,) = causes_of(two(untold[0], untold[1]))
    assert cause.rule == "straggler" and len(cause.evidence) == 1


@pytest.mark.parametrize(("waited_ms", "named"), [(0.9, []), (1.1, ["exchange"])])
def test_an_exchange_of_less_than_a_tenth_of_a_step_is_no_cause(waited_ms: float, named: list[str]) -> None:
    """Of a step of 10 ms: two healthy ranks of one machine waited 5 to 6% of theirs."""
    raw = [steps(np.full(COUNT, 4.0), 4.0 + waited_ms, 4.0, seed) for seed in (1, 2)]
    assert [cause.rule for cause in causes_of(two(*raw))] == named


def fixed(alone_ms: float, larger_ms: float, threads: int = 1, **fields: object) -> Observation:
    """Forward and backward of 8 ms, as long by themselves or more with 64 samples; the optimiser 1 ms; two cores."""
    of = {"train": {"batch_size": 4}, **fields}
    probes = {"alone_ms": alone_ms, "larger_ms": larger_ms, "larger_batch": 64}
    base = observe(None, loading_ms=0, fields=of, probes=probes, threads=threads)
    phases = {"forward": PhaseTimes(3, 3), "backward": PhaseTimes(5, 5), "optimiser": PhaseTimes(1, 1)}
    return Observation(base.job, 2, 9.0, phases, probes=base.probes)


def test_threads_that_take_turns_are_no_small_batch() -> None:
    """Eight of them on two cores wait for each other in every operation, as long for few samples as for many."""
    assert [cause.rule for cause in causes_of(fixed(8.0, 23.0, threads=8))] == []
    assert [cause.rule for cause in causes_of(fixed(8.0, 23.0, threads=2))] == ["small_batch"]


def test_steps_that_hardly_depend_on_their_samples_are_too_small() -> None:
    """4 samples in 8 ms and 64 in 23: 7 are fixed, 1 of the optimiser too, and a sample takes 0.25. 32 of them take
    9 + 28 x 0.25 = 16 ms, 4 of them 2: 7 of 9 are gained.

    64 samples would leave less, but 512 samples make 30 steps of no larger batch than 32.
    """
    cause = first(fixed(8.0, 23.0))
    assert cause.rule == "small_batch" and cause.changes == {"train.batch_size": 32}
    assert cause.gain_s == pytest.approx(0.007)


def test_no_larger_batch_is_advised_than_the_one_that_was_tried() -> None:
    """Of 8,192 samples 256 would leave a tenth: 64 were timed, 9 + 60 x 0.25 = 24 ms, so that 4 of them take 1.5."""
    cause = first(fixed(8.0, 23.0, data={"samples": 8192}))
    assert cause.changes == {"train.batch_size": 64} and cause.gain_s == pytest.approx(0.0075)


def test_the_larger_batch_has_to_be_made_too() -> None:
    """Four samples in 2 ms without loader processes: 32 take 16 to be made and 16 to be computed."""
    run = replace(
        fixed(8.0, 23.0),
        step_ms=11.0,
        batch=Batch(2.0, 2.0),
        phases={**fixed(8.0, 23.0).phases, "loading": PhaseTimes(2.0, 2.0)},
    )
    (cause,) = small_batch.find(run)
    assert cause.gain_s == pytest.approx((11 - 32 / 8) / 1e3)


def test_the_larger_batch_has_to_be_handed_over_too() -> None:
    """A batch of 4 comes in 1.0 ms from a loader process, one of 64 that lies ready takes 1.2 ms longer than one of 4:
    32 take 28 x 0.02 ms more. Without these probes nobody knows, and as much as of 4 is taken.
    """
    base = fixed(8.0, 23.0, loader={"workers": 1})
    run = replace(
        base,
        step_ms=10.0,
        batch=Batch(0.2, 0.2),
        phases={**base.phases, "loading": PhaseTimes(1.0, 0.2)},
    )
    (unknown,) = small_batch.find(run)
    assert unknown.gain_s == pytest.approx((10 - 17 / 8) / 1e3)
    (cause,) = small_batch.find(replace(run, probes={**run.probes, "ready_ms": 0.3, "larger_ready_ms": 1.5}))
    assert cause.changes == {"train.batch_size": 32}
    assert cause.gain_s == pytest.approx((10 - 17.56 / 8) / 1e3)


def test_denormal_numbers_are_no_small_batch() -> None:
    """Of 6 ms of the optimiser 5.5 are theirs: 2 + 0.5 of the other 8.5 are fixed, which is no half."""
    base = fixed(8.0, 98.0)
    slow = {**base.phases, "optimiser": PhaseTimes(6, 6)}
    probes = {"denormal_ratio": 0.5, "optimiser_ms": 6.2, "optimiser_flushed_ms": 0.5}
    run = replace(base, step_ms=14.0, phases=slow)
    assert [cause.rule for cause in causes_of(run)] == ["small_batch"]
    (cause,) = causes_of(replace(run, probes={**run.probes, **probes}))
    assert cause.rule == "denormals" and cause.changes == {"train.flush_denormals": True}
    assert cause.cost_s == pytest.approx(0.0055) and cause.at_most and cause.gain_s is None, (
        "nobody saw the steps"
    )
    assert cause.sentence.endswith("50.0% of its state are below the smallest normal float.")


@pytest.mark.parametrize(("since", "gain_s"), [(0, 0.0055), (30, None), (50, None)])
def test_a_gain_is_predicted_of_denormal_numbers_that_were_there_from_the_start(
    since: int, gain_s: float | None
) -> None:
    """Of 60 steps from the first one, from the half, or of the last ten: without them the optimiser takes 0.5 ms. What
    they cost is at most what the last state does.
    """
    base = fixed(8.0, 98.0)
    raw = steps(np.where(np.arange(COUNT) < since, 0.5, 6.2), 5.0, 5.0)
    optimiser_ms = float(raw["optimiser_wall_ns"].mean() / 1e6) + 0.3  # of which 0.3 are none of the probes'
    run = replace(
        base,
        ranks=(raw,),
        phases={**base.phases, "optimiser": PhaseTimes(optimiser_ms, optimiser_ms)},
        probes={"denormal_ratio": 0.5, "optimiser_ms": 6.0, "optimiser_flushed_ms": 0.5},
    )
    (cause,) = denormals.find(run)
    assert cause.gain_s == (None if gain_s is None else pytest.approx(gain_s)) and cause.at_most == bool(
        since
    )
    assert cause.cost_s is not None and cause.cost_s <= 0.0055 + 1e-12
    assert ("what they cost is a bound" in cause.evidence[0]) == bool(since)


def test_denormal_numbers_that_cost_nothing_are_no_cause() -> None:
    """A processor that is as fast with them, or hardly slower, three of them in 220 million numbers, and a state
    without any: whatever else the optimiser does meanwhile.
    """
    run = fixed(8.0, 98.0)
    run = replace(run, step_ms=10.0, phases={**run.phases, "optimiser": PhaseTimes(2, 2)})

    def probes(ratio: float, state_ms: float | None, flushed_ms: float | None) -> dict[str, float | None]:
        return {"denormal_ratio": ratio, "optimiser_ms": state_ms, "optimiser_flushed_ms": flushed_ms}

    for more in (
        probes(0.5, 1.0, 1.0), probes(0.5, 1.19, 1.0), probes(3 / 220e6, 3.0, 1.0), probes(0.0, None, None), {},
    ):  # fmt: skip
        assert causes_of(replace(run, probes={**run.probes, **more})) == []
        assert denormals.cost_ms(replace(run, probes={**run.probes, **more})) == 0


def test_reading_the_clocks_is_no_fixed_part_of_a_step() -> None:
    """4 samples in 8 ms and 64 in 76: 3.5 are fixed, and 1 of the optimiser, which is no half of 9 ms; 0.6 more between
    the phases would make it one, and are the time in which the clocks were read.
    """
    run = replace(fixed(8.0, 76.0), step_ms=9.6)
    (cause,) = causes_of(run)
    assert cause.rule == "small_batch" and cause.evidence[1].endswith("between the phases: 0.6 ms")
    assert causes_of(replace(run, clocks_ms=0.6)) == []


def test_the_larger_batch_has_to_be_copied_to_a_gpu_too() -> None:
    """4 samples are copied in 0.5 ms: 32 take 28 x 0.125 ms longer for that and 28 x 0.25 to be computed, 20 in all."""
    run = fixed(8.0, 23.0, devices={"kind": "gpu"})
    run = replace(run, step_ms=9.5, phases={**run.phases, "to_device": PhaseTimes(0.5, 0.5)})
    (cause,) = small_batch.find(run)
    assert cause.changes == {"train.batch_size": 32} and cause.gain_s == pytest.approx((9.5 - 20 / 8) / 1e3)


def test_steps_that_grow_with_their_samples_are_not_too_small() -> None:
    """4 samples in 8 ms and 64 in 104: 1.6 are fixed, and 1 of the optimiser."""
    assert causes_of(fixed(8.0, 104.0)) == []
    assert causes_of(replace(fixed(8.0, 23.0), probes={})) == [], "nothing was tried"


@pytest.mark.parametrize("network", ["resnet-18", "fashion-cnn"])
@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("benchmark", ["inference", "smooth_inference"])
def test_a_rank_that_is_stopped_in_inference_is_the_straggler(
    benchmark: str, share: float, network: str
) -> None:
    """Of two that compute 4 ms a step: a forward pass that no gradient follows exchanges nothing, with running
    statistics or without, so that what blocks it stops its rank; and nothing is named where nothing does.
    """
    pair = []
    for seed in range(2):
        own_ns = 4e6 * (1 + 0.05 * np.random.default_rng(seed).standard_normal(COUNT))
        times = {f"loading_{of}_ns": np.zeros(COUNT) for of in ("wall", "cpu", "wait")}
        times |= {"forward_cpu_ns": own_ns, "forward_wait_ns": np.zeros(COUNT)}
        times["forward_wall_ns"] = own_ns / (1 - seed * share)
        pair.append({"step": np.arange(COUNT, dtype=np.float64), **times})
    fields = {"train": {"benchmark": benchmark}, "model": {"name": network}}
    run = observe(None, loading_ms=0, processes=2, cores=2, ranks=(pair[0], pair[1]), fields=fields)
    found = list(straggler.find(run))
    assert [cause.rank for cause in found] == ([1] if share else [])
    for cause in found:
        assert "1.4" in cause.sentence and cause.cost_s == pytest.approx(4e-3 * 0.3 / 0.7, rel=0.1)
        assert cause.sentence.endswith(
            "the epoch ends with it." if benchmark == "inference" else "they wait for it."
        )


def test_without_told_waits_nothing_is_told_of_stops() -> None:
    """Both compute 4 ms in the optimiser, and rank 1 waits for a core as long again: where the kernel does not tell it,
    it is no stop, and the figure of what each does by itself says that it is in it.
    """
    untold = {f"{phase}_wait_ns": np.full(COUNT, np.nan) for phase in PHASES}
    one, other = ({**steps(np.full(COUNT, 4.0), 4.0, 4.0, seed), **untold} for seed in (1, 2))
    run = two(one, {**other, "optimiser_wall_ns": 2 * other["optimiser_cpu_ns"]})
    assert stopped_ratio(run, run.ranks[1]) == 0 and not straggler.stops_of(run, run.ranks[1]).any()
    (cause,) = straggler.find(run)
    assert cause.rank == 1 and cause.evidence[0].endswith("which the kernel does not tell")
    assert not any("stopped" in text for text in cause.evidence) and "once more" in (cause.remedy or "")


def test_on_gpus_what_blocks_a_thread_is_its_device() -> None:
    """Both ranks are blocked 15 of 20 ms in backward and one of them half of its optimiser: no exchange, no stop."""
    run = two(steps(np.full(COUNT, 4.0), 20.0, 5.0, 1), stopped(0.3, 2, 20.0))
    assert {cause.rule for cause in causes_of(run)} >= {"exchange"}
    fields = run.job.model_dump(mode="json", exclude_defaults=True)
    fields["devices"] |= {"kind": "gpu", "backend": "gloo"}
    on_gpu = replace(run, job=TrainingJob.model_validate(fields))
    assert "exchange" not in {cause.rule for cause in causes_of(on_gpu)}
    assert stopped_ratio(run, run.ranks[1]) > 0.2 and stopped_ratio(on_gpu, run.ranks[1]) == 0
    assert not straggler.stops_of(on_gpu, run.ranks[1]).any()


def test_a_straggler_on_gpus_has_no_figures_of_its_thread() -> None:
    """5 ms of its own instead of 4: what stops its thread, and what it waits for in backward, its device hides, and the
    memory of a CPU is no remedy.
    """
    run = two(steps(np.full(COUNT, 4.0), 5.0, 4.0, 1), steps(np.full(COUNT, 5.0), 5.0, 5.0, 2))
    fields = run.job.model_dump(mode="json", exclude_defaults=True)
    fields["devices"] |= {"kind": "gpu", "backend": "gloo"}
    (cause,) = straggler.find(replace(run, job=TrainingJob.model_validate(fields)))
    assert cause.rank == 1 and len(cause.evidence) == 1 and "by itself" in cause.evidence[0]
    assert "On a CPU" not in (cause.remedy or "") and "core, device or host of rank 1" in (cause.remedy or "")


def test_on_gpus_the_reducers_own_events_tell_the_exchange() -> None:
    """nccl's last gradients come back 3 ms and 5 ms after the last one is computed: 3 ms of a step of 10 are the
    exchange, whatever blocks the threads. Without these clocks, and of gloo, nothing is told.
    """

    def on_gpus(backend: str, apart_ms: tuple[float | None, float | None]) -> list[str]:
        raw = [
            {
                **steps(np.full(COUNT, 4.0), 9.0, 1.0, seed),
                "all_reduce_apart_ns": np.full(COUNT, np.nan if ms is None else ms * 1e6),
            }
            for seed, ms in enumerate(apart_ms, 1)
        ]
        run = two(*raw)
        fields = run.job.model_dump(mode="json", exclude_defaults=True)
        del fields["devices"]["processes"]
        fields["devices"] |= {"kind": "gpu", "backend": backend, "count": 2}
        found = [
            cause
            for cause in causes_of(replace(run, job=TrainingJob.model_validate(fields)))
            if cause.rule == "exchange"
        ]
        assert all(cause.cost_s == pytest.approx(0.003) for cause in found)
        assert all("reducer's events on the device" in cause.evidence[0] for cause in found)
        return [cause.rule for cause in found]

    assert on_gpus("nccl", (3.0, 5.0)) == ["exchange"]
    assert on_gpus("nccl", (0.9, 5.0)) == []  # less than a tenth of the step: one rank is late
    assert on_gpus("nccl", (3.0, None)) == [] and on_gpus("gloo", (3.0, 5.0)) == []


def test_waits_of_several_threads_are_no_part_of_a_wall_time() -> None:
    """Two threads on two cores waited 3 ms together in an optimiser of 1: 7 + 1 ms of 9 stay fixed."""
    run = fixed(8.0, 23.0, threads=2)
    waited = {**run.phases, "optimiser": PhaseTimes(1, 1, 3)}
    cause = first(replace(run, phases=waited))
    assert cause.rule == "small_batch" and "optimiser: 1 ms" in cause.evidence[1]
