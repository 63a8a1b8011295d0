"""The estimate after codecarbon: its curve, its default, its label; and figures of unverified prices say so."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.analysis.report.compose import html
from inferbench_tasks.catalogue import price_rows
from inferbench_tasks.metrics.energy_codecarbon import power_w
from inferbench_tasks.monitors.records import Series
from tests.unit.analysis.builders import SECOND, named, records, view
from tests.unit.metrics.spent import EPYC, gauge, measure, watched

UNKNOWN = {"cpu": "Unheard-of 9000", "cores_logical": 2, "gpus": []}


def test_the_curve_is_codecarbons() -> None:
    """Watt by the load factor in codecarbon 3.3.2's CPU._get_power_from_cpu_load, at 280 W and these loads."""
    told = {0: 28.0, 10: 28.252, 50: 59.5, 80: 157.024, 100: 280.0}
    assert power_w(280.0, np.array(list(told)) / 100).tolist() == pytest.approx(list(told.values()))


def test_where_nothing_else_is_known_it_is_the_method_and_says_that_it_is_an_estimate() -> None:
    """An unknown processor with two threads, half busy: 8 W x (0.1 + 0.9 / 8) over 200 requests/s."""
    found = measure({("host", "cpu_ratio"): gauge(0.5), **watched()}, UNKNOWN)["energy"]
    assert found["method"] == "codecarbon_estimate"
    assert found["joule_per_request"] == pytest.approx(8 * (0.1 + 0.9 * 0.5**3) / 200, rel=0.01)
    assert found["uncertainty_ratio"] == 1.0
    assert "not a measurement" in found["scope"]


def test_it_is_a_cross_check_where_something_better_is_there() -> None:
    """A processor of 280 W for 64 cores, of which this machine has two: the TDP of two cores, half busy."""
    found = measure({("host", "cpu_ratio"): gauge(0.5), **watched(0.5)}, EPYC)["energy"]
    assert found["method"] == "tdp_estimate"
    expected = 280 / 64 * 2 * (0.1 + 0.9 * 0.5**3) / 200
    assert found["others"]["codecarbon_estimate"] == pytest.approx(expected, rel=0.01)


def test_where_samples_come_less_often_each_holds_for_its_own_time() -> None:
    """Idle for 4 s of the window's 8, by samples of half a second, then all busy, by samples of a second: 0.8 W and 8 W
    are 4.4 W.
    """
    t_ns = np.concatenate([np.arange(0, 6.5, 0.5), np.arange(7, 13)]) * SECOND
    load = Series(t_ns.astype(np.int64), np.where(t_ns <= 6 * SECOND, 0.0, 1.0))
    energy = measure({("host", "cpu_ratio"): load, **watched()}, UNKNOWN)["energy"]
    assert energy["power_w"] == pytest.approx((4 * 0.8 + 4 * 8.0) / 8)


def test_item_14_hardware_threads_are_not_taken_for_cores() -> None:
    """15.14: where the number of cores is not known, four threads of a 280 W processor are no four cores of it."""
    hardware = {**EPYC, "cores_logical": 4, "cores_physical": None}
    energy = measure({("host", "cpu_ratio"): gauge(1.0), **watched()}, hardware)["energy"]
    assert energy["method"] == "codecarbon_estimate"
    assert energy["power_w"] == pytest.approx(4 * 4.0, rel=0.01)  # codecarbon's default for a thread


def test_without_the_machines_load_there_is_none() -> None:
    """None with the reason, never 0."""
    found = measure({}, UNKNOWN)["energy"]
    assert found["joule_per_request"] is None
    assert "codecarbon_estimate: the machine's load was not sampled" in found["reason"]


def test_figures_from_a_rate_that_nobody_looked_up_say_so() -> None:
    """The page's summary and its cost table carry the word; a row that was looked up does not."""
    unverified = next(row for row in price_rows() if row.unverified and row.kind == "cpu")
    run = view(records(5.0))
    assert run.result is not None
    cost = measure({}, {"cpu": unverified.device.split("/")[0], "cores_logical": 2, "gpus": []})["cost"]
    assert cost["unverified"] is True
    a100 = measure({}, {"cpu": "x", "cores_logical": 4, "gpus": [{"name": "NVIDIA A100-SXM4-80GB"}]}, "gpu")[
        "cost"
    ]
    assert a100["unverified"] is False
    for found, said in ((cost, True), (a100, False)):
        run.summary.update({"cost": found, "cost_usd_per_1k": found["usd_per_1k"]})
        assert ("(unverified)" in html(named(run), {})) is said
