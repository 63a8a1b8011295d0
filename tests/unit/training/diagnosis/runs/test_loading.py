"""Causes in the loading: the right one first, with the gain that is worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inferbench_tasks.training.diagnosis.measured import causes_of
from inferbench_tasks.training.diagnosis.observation import Batch, PhaseTimes
from inferbench_tasks.training.diagnosis.runs import preparation, transfer
from tests.unit.training.diagnosis.observations import first, observe


def test_heavy_decoding_without_loader_processes_is_preparation() -> None:
    """22 ms of making and 10 ms of the rest: 32 ms; two processes are enough for max(11, 11) = 11 ms."""
    cause = first(observe(Batch(22, 22), loading_ms=22, loading_cpu_ms=22))
    assert cause.rule == "preparation" and cause.changes == {"loader.workers": 2}
    assert cause.gain_s == pytest.approx(0.021) and cause.cost_s == pytest.approx(0.021)


def test_too_few_loader_processes_are_preparation() -> None:
    """One process makes a batch each 30 ms; with 3 of them the rest of 10 ms and the hand-over of 0 set the pace."""
    cause = first(observe(Batch(30, 30), loading_ms=20, workers=1))
    assert cause.rule == "preparation" and cause.changes == {"loader.workers": 3}
    assert cause.gain_s == pytest.approx(0.020)


def test_slow_reads_are_fetching_and_not_preparation() -> None:
    """18 of 20 ms are reads: without them the step takes 12 instead of 30 ms; in memory 0.5 ms are left to be made."""
    cause = first(observe(Batch(20, 2, read_ms=18, collate_ms=0.5), loading_ms=20, loading_cpu_ms=2))
    assert cause.rule == "fetch" and cause.changes == {"data.where": "memory"}
    assert cause.cost_s == pytest.approx(0.018) and cause.gain_s == pytest.approx(0.0195)


def test_cold_reads_are_remedied_by_warm_memory() -> None:
    """What is kept in memory can't be read cold: both fields change."""
    cold = {"data": {"read": "cold"}}
    cause = first(observe(Batch(20, 2, read_ms=18), loading_ms=20, fields=cold))
    assert cause.rule == "fetch" and cause.changes == {"data.where": "memory", "data.read": "warm"}


def test_augmented_images_are_read_anew_so_that_no_field_mends_it() -> None:
    """The remedy is a faster storage, and its gain the stall."""
    cause = first(observe(Batch(20, 2, read_ms=18), loading_ms=20, fields={"data": {"augment": True}}))
    assert cause.rule == "fetch" and cause.changes == {} and cause.gain_s == cause.cost_s


def test_what_lies_in_memory_is_not_advised_to_be_kept_there() -> None:
    """18 of 20 ms are reads of a list: no storage is slow, and the remedy was there before."""
    run = observe(Batch(20, 2, read_ms=18), loading_ms=20, fields={"data": {"where": "memory"}})
    assert "fetch" not in [cause.rule for cause in causes_of(run)]


def test_one_core_for_rank_and_loader_is_the_cores() -> None:
    """22 + 10 ms of work on one core are 32 ms; with three cores a step takes 11 ms."""
    run = observe(Batch(22, 22), loading_ms=12, workers=1, cores=1, waits_ms=10)
    cause = first(run)
    assert cause.rule == "cores" and cause.changes == {}
    assert cause.remedy is not None and cause.remedy.startswith("Ask for 4 cores")
    assert any("waits for a core in a step" in line for line in cause.evidence)


def test_two_ranks_on_one_core_are_the_cores() -> None:
    """Each has 10 ms of work and waits 10 ms for the other: with two cores a step takes half as long."""
    cause = first(observe(None, loading_ms=0, processes=2, cores=1, waits_ms=10))
    assert cause.rule == "cores" and cause.cost_s == pytest.approx(0.010)
    assert cause.remedy is not None and cause.remedy.startswith("Ask for 2 cores")


def test_more_loader_processes_than_of_use_are_the_cores() -> None:
    """4 ms of making need one process; eight on two cores let the rank wait 3 ms of each step."""
    cause = first(observe(Batch(4, 4), loading_ms=0, workers=8, cores=2, waits_ms=3))
    assert cause.rule == "cores" and cause.changes == {"loader.workers": 1}
    assert cause.gain_s == pytest.approx(0.003)


def test_ranks_that_no_process_loads_for_make_their_batches() -> None:
    """One core has room for no loader process: 3 ms of waits end, and 0.5 ms of making come, 0.6 where the rank was
    seen to take as long.
    """
    run = observe(Batch(0.5, 0.5), loading_ms=0, workers=4, cores=1, waits_ms=3)
    for probes, gain_ms in (({}, 2.5), ({"own_making_ms": 0.6}, 2.4)):
        (cause,) = causes_of(replace(run, probes={**run.probes, **probes}))
        assert cause.rule == "cores" and cause.changes == {"loader.workers": 0}
        assert cause.cost_s == pytest.approx(0.003) and cause.gain_s == pytest.approx(gain_ms / 1e3)


def test_fewer_loader_processes_end_no_waits_for_cores_that_the_work_keeps_busy() -> None:
    """Two ranks of 10 ms on two cores, beside 12 processes whose batches take 0.5 ms each: by itself a rank needs
    0.5 + 10 ms, 10.5 of the 10.5 that each core has. The 3 ms of waits are the cores', and no fewer processes mend it.
    """
    run = observe(Batch(0.5, 0.5), loading_ms=0.2, workers=6, processes=2, cores=2, waits_ms=3)
    cause = first(run)
    assert cause.rule == "cores" and cause.changes == {} and cause.cost_s == pytest.approx(0.003)
    assert cause.gain_s is None and "would be enough" not in cause.sentence
    assert cause.remedy is not None and cause.remedy.startswith("Ask for up to 14 cores")


def test_a_batch_that_takes_longer_to_be_handed_over_than_made_is_transfer() -> None:
    """0.5 ms to be made, 3 ms until the rank has it: by itself the rank takes 10.5 instead of 13 ms."""
    cause = first(observe(Batch(0.5, 0.5), loading_ms=3, workers=1))
    assert cause.rule == "transfer" and cause.changes == {"loader.workers": 0}
    assert cause.gain_s == pytest.approx(0.0025)


def test_without_loader_processes_computing_is_as_fast_as_by_itself() -> None:
    """Beside a process forward and backward take 8.5 ms, alone 2.5: 13 ms become 0.5 + 4, and 2.5 of them are the
    handing over.
    """
    cause = first(observe(Batch(0.5, 0.5), loading_ms=3, workers=1, probes={"alone_ms": 2.5}))
    assert cause.rule == "transfer" and cause.cost_s == pytest.approx(0.0025)
    assert cause.gain_s == pytest.approx(0.0085)
    assert any("6 ms longer than by itself" in line for line in cause.evidence)


def test_a_rank_makes_a_batch_without_what_handing_it_over_costs_its_process() -> None:
    """A loader process has 6 ms of CPU time for a batch that is made in 0.5, the rank itself takes 0.8: on one core,
    too, 10.8 ms are left of 13.
    """
    for cores in (1, 2):
        run = observe(Batch(0.5, 6.0), loading_ms=3, workers=1, cores=cores, probes={"own_making_ms": 0.8})
        assert run.pipeline is not None and run.pipeline.of(workers=0).step_ms == pytest.approx(10.8)
    (cause,) = transfer.find(run)
    assert cause.gain_s == pytest.approx(0.0022)


def test_a_remedy_that_makes_a_step_longer_is_none() -> None:
    """On one core the work of a step is 19 ms by its parts, and 14 without the process: the step took 13."""
    run = observe(Batch(0.5, 6.0), loading_ms=3, workers=1, cores=1, probes={"own_making_ms": 4.0})
    assert run.pipeline is not None and run.pipeline.step_ms == pytest.approx(19)
    assert run.pipeline.of(workers=0).step_ms == pytest.approx(14) and run.step_ms == 13
    assert list(transfer.find(run)) == []


def test_waits_for_a_core_that_loader_processes_cause_end_with_them() -> None:
    """2 of 15 ms are such waits: 0.5 + 10 are left where the rank has a core for itself."""
    (cause,) = transfer.find(observe(Batch(0.5, 0.5), loading_ms=3, workers=1, cores=2, waits_ms=2))
    assert cause.gain_s == pytest.approx(0.0045) and cause.cost_s == pytest.approx(0.0025)


def test_a_remedy_by_loader_processes_is_slower_by_what_computing_is_beside_them() -> None:
    """20 ms to be made and 10 of the rest, 13 beside a process: 30 become 21 with one, and 14 with as many as help."""
    probes = {"alone_ms": 8.5, "beside_ms": 11.5}
    run = observe(Batch(20, 20), loading_ms=20, loading_cpu_ms=20, probes=probes)
    assert run.pipeline is not None and run.pipeline.of(workers=1).step_ms == pytest.approx(20)
    cause = first(run)
    assert cause.rule == "preparation" and cause.changes == {"loader.workers": 2}
    assert cause.gain_s == pytest.approx(0.016)


def test_computing_of_several_ranks_is_without_what_they_wait_for_one_another() -> None:
    """Of 5 ms of backward 2 are blocked: 6.5 ms are computed. What is beyond computing alone may be the other rank's
    doing, and is not said to be the loader processes'; of one rank it is.
    """
    run = observe(Batch(4, 4), loading_ms=0.2, workers=1, processes=2, probes={"alone_ms": 5.0})
    phases = {**run.phases, "backward": PhaseTimes(5.0, 3.0)}
    several = replace(run, phases=phases)
    assert several.computing_ms == pytest.approx(6.5) and several.crowded_ms == 0
    one = observe(Batch(4, 4), loading_ms=0.2, workers=1, probes={"alone_ms": 5.0})
    assert one.crowded_ms == pytest.approx(3.5)
    assert replace(one, probes={}).crowded_ms == 0


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_short_load_by_the_rank_itself_is_no_cause(cores: float) -> None:
    """0.8 ms of 10.8 would be gained at most, and handing over takes 1 ms."""
    assert causes_of(observe(Batch(0.8, 0.8), loading_ms=0.8, loading_cpu_ms=0.8, cores=cores)) == []


def test_data_on_the_device_has_no_cause() -> None:
    """Nothing is loaded, one rank on its core computes."""
    assert causes_of(observe(None, loading_ms=0.0, cores=1)) == []


def test_loader_processes_that_keep_up_have_no_cause() -> None:
    """Two processes make a batch each 8 ms, the rank takes 10, and a batch that lies ready comes in 0.2 ms."""
    assert causes_of(observe(Batch(16, 16), loading_ms=0.2, workers=2, cores=4)) == []


def test_the_cores_of_a_remedy_are_those_of_its_threads_too() -> None:
    """On two cores two loader processes bring (20 + 10 + 1) / 2 = 15.5 ms; with one for each of two threads too, 11."""
    run = observe(Batch(20.0, 20.0), loading_ms=20.0, loading_cpu_ms=20.0, cores=2, threads=2)
    (cause,) = preparation.find(run)
    assert "bound it to 15.5 ms then; 2 on 4 cores would bring 11 ms" in (cause.remedy or "")


def test_a_batch_that_comes_late_for_want_of_a_core_is_not_handed_over_slowly() -> None:
    """Rank and loader process of 10 and 8 ms of work take turns on one core, 18 ms a step: the 8 ms that loading takes
    are waiting for the batch, as long without the process. On two cores a step takes 10 ms.
    """
    run = observe(Batch(8, 8, wait_ms=10), loading_ms=8, workers=1, cores=1)
    assert run.pipeline is not None and run.pipeline.hand_over_ms == 0
    assert {cause.rule: cause.cost_s for cause in causes_of(run)} == {"cores": pytest.approx(0.008)}


def test_cores_say_nothing_of_loader_processes_that_nobody_tried() -> None:
    """Two ranks with their data on one core: no loader has a part in it."""
    cause = first(observe(None, loading_ms=0, processes=2, cores=1, waits_ms=10))
    assert cause.sentence == (
        "The 1 granted core(s) hold it up: a step takes 20 ms on them, 2 cores would bring 10 ms."
    )
    assert cause.remedy is not None and "loader" not in cause.remedy
