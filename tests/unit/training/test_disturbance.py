"""What others on the machine did to a training, worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.metrics import interference
from inferbench_tasks.metrics.interference import MODE
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.training.disturbance import ledger, window_of
from inferbench_tasks.training.order import Answer
from tests.unit.training.epochs import JOB, SECOND_NS, used

TWO_CORES = {"cores_logical": 2}
EPOCHS = [(float(2 * at), 2.0 * at + 1.5) for at in range(6)]


@pytest.fixture(autouse=True)
def _judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MODE, raising=False)


def recording(busy: Sequence[float], **rates: float) -> Recording:
    """``busy``: cores in use in each of the seconds; the rest by its name, per second."""
    t_ns = np.arange(len(busy) + 1) * SECOND_NS
    grown: dict[str, Any] = {"host__cpu_busy_s_total": np.concatenate(([0.0], np.cumsum(busy)))}
    for name, rate in {"host__cpu_steal_s_total": 0.0, "client__cpu_s_total": 0.0, **rates}.items():
        grown[name] = np.arange(len(busy) + 1) * rate
    keys = {name: (name.partition("__")[0], name.partition("__")[2]) for name in grown}
    return Recording({keys[name]: Series(t_ns, values) for name, values in grown.items()}, {})


def findings(of: dict[str, Any]) -> list[tuple[str, float, bool]]:
    return [(one["kind"], round(one["value"], 3), one["quarantine"]) for one in of["findings"]]


def verdict(of: dict[str, Any]) -> str:
    return str(Verdict.judged(interference.reasons(of)))


def test_others_on_the_cores_make_a_run_disturbed() -> None:
    """A rank that has 0.6 of a core and waits 0.4 behind others in each second loses 40% of its steps' time."""
    of = ledger(recording([2.0] * 12), [used(EPOCHS, 0.6, 0.4)], JOB, TWO_CORES)
    assert findings(of) == [("waited_for_cpu", 0.4, True), ("foreign_cpu", 0.7, False)]
    assert verdict(of).startswith("disturbed: the run's processes lost 40% of their steps' time waiting")


def test_a_busy_core_that_is_not_needed_is_no_disturbance() -> None:
    """Others use the second core wholly and the rank waits for nothing: shown, and it decides nothing."""
    of = ledger(recording([1.9] * 12), [used(EPOCHS, 0.9, 0.0)], JOB, TWO_CORES)
    assert findings(of) == [("foreign_cpu", 0.5, False)] and verdict(of) == "valid"


def test_one_busy_program_beside_two_ranks_is_a_disturbance() -> None:
    """Each rank waits a third of the time, so that a step takes half as long again."""
    job = JOB.model_copy(update={"devices": JOB.devices.model_copy(update={"processes": 2})})
    ranks = [used(EPOCHS, 0.67, 0.33, rank=rank) for rank in range(2)]
    of = ledger(recording([2.0] * 12), ranks, job, TWO_CORES)
    assert ("waited_for_cpu", 0.33, True) in findings(of)


def test_a_single_disturbed_epoch_is_not_thinned_out_by_the_others() -> None:
    """Of six epochs one loses half of its time to others: over all it is 8%, and a rate of three is off by a sixth."""
    start_s, end_s = EPOCHS[3]
    calm = [used([window], 0.9, 0.0).epochs[0] for window in EPOCHS]
    calm[3] = used([(start_s, end_s)], 0.5, 0.5).epochs[0]
    busy = [0.9] * 12
    busy[6] = busy[7] = 2.0
    of = ledger(recording(busy), [used(EPOCHS).model_copy(update={"epochs": calm})], JOB, TWO_CORES)
    assert ("waited_for_cpu", 0.5, True) in findings(of)
    assert verdict(of).startswith("disturbed: ")


def test_ranks_that_wait_for_each_other_are_no_disturbance() -> None:
    """Eight ranks on two cores wait most of the time while nobody else uses the CPU."""
    job = JOB.model_copy(update={"devices": JOB.devices.model_copy(update={"processes": 8})})
    ranks = [used(EPOCHS, 0.24, 0.7, rank=rank) for rank in range(8)]
    of = ledger(recording([1.95] * 12), ranks, job, TWO_CORES)
    assert of["findings"] == []
    # A program that takes 0.15 of the 2 cores makes their steps 8% longer, however long they wait for each other.
    of = ledger(
        recording([2.0] * 12), [used(EPOCHS, 0.231, 0.7, rank=rank) for rank in range(8)], job, TWO_CORES
    )
    assert of["findings"] == []


def test_a_rank_alone_behind_others_holds_up_all_of_them() -> None:
    """One of four ranks on eight cores waits half of the time: an eighth of the CPU of all, half of each step."""
    job = JOB.model_copy(update={"devices": JOB.devices.model_copy(update={"processes": 4})})
    ranks = [used(EPOCHS, 0.5, 0.5 if rank == 0 else 0.0, rank=rank) for rank in range(4)]
    of = ledger(recording([2.5] * 12), ranks, job, {"cores_logical": 8})
    assert findings(of) == [("waited_for_cpu", 0.5, True)]


def test_loaders_that_live_too_short_for_a_monitor_are_nobody_else() -> None:
    """They use a core, which the ranks tell themselves; the monitor of the processes has seen none of them."""
    job = JOB.model_copy(update={"loader": JOB.loader.model_copy(update={"workers": 2})})
    ranks = [used(EPOCHS, 0.9, 0.1, loader_s=(1.0, 0.6))]
    of = ledger(recording([1.9] * 12, server__cpu_s_total=0.9), ranks, job, TWO_CORES)
    assert of["findings"] == [] and verdict(of) == "valid"


def test_a_batch_on_the_device_has_no_loader_processes_to_watch() -> None:
    """Whatever the job says of them nobody starts any, so that nothing of them is read: the machine was watched, and
    one thread on two cores need wait for nobody.
    """
    data = JOB.data.model_copy(update={"where": "device"})
    job = JOB.model_copy(update={"data": data, "loader": JOB.loader.model_copy(update={"workers": 2})})
    of = ledger(recording([0.9] * 12), [used(EPOCHS, 0.9, 0.0)], job, TWO_CORES)
    assert of["watched"] and "foreign CPU" not in of["not_watched"] and verdict(of) == "valid"
    disturbed = ledger(recording([2.0] * 12), [used(EPOCHS, 0.6, 0.2, longest_s=0.4)], job, TWO_CORES)
    assert ("waited_for_cpu", 0.4, True) in findings(disturbed)


def test_only_the_cores_that_a_worker_has_are_looked_at() -> None:
    """What a hypervisor takes of two leased cores of 64 is not thinned out by the rest."""
    seen = recording(
        [40.0] * 12, host__cpu_steal_s_total=0.6,
        **{f"host__core{core}_busy_s_total": 0.45 for core in (4, 5)},
        **{f"host__core{core}_steal_s_total": 0.3 for core in (4, 5)},
    )  # fmt: skip
    of = ledger(seen, [used(EPOCHS, 0.9, 0.0)], JOB, {"cores_logical": 64, "cores_allowed": [4, 5]})
    assert findings(of) == [("steal", 0.3, True)]


def test_where_waits_are_not_told_all_that_others_used_counts() -> None:
    """A kernel without schedstat hides what others took, so that they may have taken all of it."""
    of = ledger(recording([1.9] * 12), [used(EPOCHS, 0.9, None)], JOB, TWO_CORES)
    assert ("waited_for_cpu", round(1.0 / 1.9, 3), True) in findings(of)
    assert of["not_watched"] == ["waiting for a core", "the processor's clock"]
    assert ledger(recording([0.9] * 12), [used(EPOCHS, 0.9, None)], JOB, TWO_CORES)["findings"] == []


def test_what_nobody_watched_is_not_valid() -> None:
    """Without the machine's CPU, the ranks' own, or any measured step nothing is known of others."""
    calm: Answer = used(EPOCHS)
    for seen, ranks in (
        (Recording({}, {}), [calm]),
        (recording([1.0] * 12), [used(EPOCHS, None, None)]),
        (recording([1.0] * 12), [used([])]),
    ):
        of = ledger(seen, ranks, JOB, TWO_CORES)
        assert "foreign CPU" in of["not_watched"]
        assert verdict(of).startswith("invalid: nobody watched the machine")
    assert window_of([(None, None), (5, 9), (3, 7)]) == (3, 9) and window_of([(None, None)]) is None
