"""A balancer before several servers: no server and no foreign process, and its cores are paid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.analysis.price_ground import rate
from inferbench_tasks.contracts.device import CPU
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.derive import derive
from inferbench_tasks.metrics.waiting import longest_waits
from inferbench_tasks.monitors.records import Recording, Series
from inferbench_tasks.monitors.usage import usage
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import EPYC, counter

#: Four cores; two replicas on 0 and 1.
HARDWARE: dict[str, Any] = {**EPYC, "cores_logical": 4, "cores_allowed": [0, 1]}
START_NS, END_NS = 2 * SECOND, 10 * SECOND


def measured(
    cores: tuple[int, ...],
    balancer: float,
    on_own: float,
    machine: float | None = None,
    hardware: dict[str, Any] = HARDWARE,
) -> dict[str, Any]:
    """All figures; ``on_own``: what the cores 0 and 1 were busy with, ``machine`` all four."""
    each = counter(on_own / 2)
    series = {
        ("host", "cpu_busy_s_total"): counter(on_own if machine is None else machine),
        **{("host", f"core{core}_busy_s_total"): each for core in (0, 1)},
        **{("host", f"core{core}_steal_s_total"): counter(0.0) for core in (0, 1)},
        ("server", "cpu_s_total"): counter(1.0), ("client", "cpu_s_total"): counter(0.2),
        ("server", "waited_s_total"): counter(0.0),
    }  # fmt: skip
    if cores:
        series["balancer", "cpu_s_total"] = counter(balancer)
        series["balancer", "cpu_cores"] = counter(balancer)
    table = records(5.0, noise=0)
    summary = summarise(table, measure_start_ns=START_NS, measure_end_ns=END_NS)
    recording = Recording(series, {})
    summary["resources"] = usage(recording, START_NS, END_NS)
    window = Window.of(table, START_NS, END_NS)
    devices = (0, 1) if cores else ()
    return derive(
        Measured(window, recording, summary, hardware, CPU, balancer_cores=cores, device_cores=devices)
    )


def foreign(figures: dict[str, Any]) -> float | None:
    found = [one["value"] for one in figures["interference"]["findings"] if one["kind"] == "foreign_cpu"]
    return found[0] if found else None


def test_a_balancer_on_the_replicas_cores_is_nobody_foreign() -> None:
    """1 core of servers, 0.2 of senders and 0.5 of the balancer make 1.7; only what is more was somebody else's."""
    assert foreign(measured((0, 1), 0.5, 1.7)) is None
    assert foreign(measured((0, 1), 0.5, 2.0)) == pytest.approx(0.15, abs=0.01)


def test_what_it_uses_of_other_cores_hides_nobody_on_the_replicas() -> None:
    """0.5 on cores of its own are not taken off what others used of the replicas'."""
    assert foreign(measured((2,), 0.5, 1.7, machine=2.2)) == pytest.approx(0.25, abs=0.01)
    assert foreign(measured((2,), 0.5, 1.2, machine=1.7)) is None


def test_the_servers_figures_have_none_of_it() -> None:
    """CPU per sample and the energy by TDP are of the servers, whatever stands before them."""
    with_one, without = measured((0, 1), 0.5, 1.7), measured((), 0.0, 1.2)
    assert with_one["cpu_ms_per_sample"] == without["cpu_ms_per_sample"]
    assert with_one["resources"]["balancer"]["cpu_cores"]["mean"] == pytest.approx(0.5)
    assert with_one["resources"]["server"]["cpu_cores"]["mean"] == pytest.approx(1.0)


def test_cores_of_its_own_are_paid_for_as_far_as_it_used_them() -> None:
    """Two cores of devices and half a one; on the replicas' cores it is in their price."""
    shared, apart = measured((0, 1), 0.5, 1.7), measured((2,), 0.5, 1.2)
    assert apart["cost"]["usd_per_1k"] == pytest.approx(shared["cost"]["usd_per_1k"] * 2.5 / 2)


def test_what_a_balancer_used_is_no_other_price() -> None:
    """It is another number in each run: repeated runs would all be of prices of their own, and none of them repeats."""
    one, other = measured((2,), 0.5, 1.2), measured((2,), 0.4, 1.2)
    assert one["cost"]["usd_per_1k"] > other["cost"]["usd_per_1k"]
    assert rate(one) is not None
    assert rate(one) == rate(other) == rate(measured((0, 1), 0.5, 1.7))
    assert rate(measured((), 0.0, 1.2, hardware=HARDWARE | {"cores_allowed": [0]})) != rate(one)


def test_what_is_left_over_of_an_undivided_machine_is_paid_for_as_it_is_used() -> None:
    """Without a lease the job might use all four cores; its devices have two, and the balancer used half a one."""
    whole = HARDWARE | {"cores_allowed": [0, 1, 2, 3]}
    leased, here = measured((2,), 0.5, 1.2), measured((2,), 0.5, 1.2, machine=1.7, hardware=whole)
    assert here["cost"]["usd_per_1k"] == pytest.approx(leased["cost"]["usd_per_1k"])


def waits(**longest_s: float) -> Recording:
    t_ns = np.arange(0, 12 * SECOND, SECOND // 25)
    series = {
        ("wait", f"{name}_longest_s"): Series(t_ns, np.full(len(t_ns), value))
        for name, value in longest_s.items()
    }
    return Recording(series, {})


def test_a_balancer_that_waits_for_a_core_keeps_requests_waiting() -> None:
    """The longest of server, sender and balancer counts; seen in a part only, nothing is known."""
    found = longest_waits(waits(server=0.001, sender=0.0, balancer=0.007), START_NS, END_NS)
    assert found is not None and found.values.max() == pytest.approx(0.007)
    recording = waits(server=0.001, sender=0.0, balancer=0.007)
    cut = recording.series["wait", "balancer_longest_s"]
    recording.series["wait", "balancer_longest_s"] = Series(cut.t_ns[:20], cut.values[:20])
    assert longest_waits(recording, START_NS, END_NS) is None
