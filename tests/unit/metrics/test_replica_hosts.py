"""Figures of replicas on hosts of their own: of all hosts, or none with the reason; and who disturbed which of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inferbench_tasks.catalogue import prices_for
from inferbench_tasks.contracts.device import CPU
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics import cost
from inferbench_tasks.metrics.base import Measured, ServerHost
from inferbench_tasks.metrics.derive import derive
from inferbench_tasks.metrics.interference import ANY_REPLICA, OWN_CLOCKS, reasons
from inferbench_tasks.monitors.records import EMPTY, Recording, Series
from inferbench_tasks.monitors.usage import usage
from inferbench_tasks.stages.spread.recordings import together
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import EPYC, counter

START_NS, END_NS = 2 * SECOND, 10 * SECOND
PINNED: dict[str, Any] = {**EPYC, "cores_logical": 4, "cores_allowed": [0, 1]}


def host(server: float, others: float = 0.0, client: float = 0.05, package_w: float = 40.0) -> Recording:
    """A host whose server used so many cores, and others beside it."""
    each = counter((server + others + client) / 2)
    series: dict[tuple[str, str], Series] = {
        ("host", "cpu_busy_s_total"): counter(server + others + client),
        ("server", "cpu_s_total"): counter(server), ("server", "waited_s_total"): counter(0.0),
        ("client", "cpu_s_total"): counter(client), ("rapl", "package_j_total"): counter(package_w),
        **{("host", f"core{core}_busy_s_total"): each for core in (0, 1)},
        **{("host", f"core{core}_steal_s_total"): counter(0.0) for core in (0, 1)},
    }  # fmt: skip
    return Recording(series, {})


def hosts(**second: Any) -> tuple[ServerHost, ...]:
    other = {"number": 2, "name": "b", "recording": host(0.4), "hardware": PINNED, **second}
    return ServerHost(1, "a", host(0.6), PINNED), ServerHost(**other)


def figures(of: tuple[ServerHost, ...]) -> dict[str, Any]:
    table = records(5.0, noise=0)
    summary = summarise(table, measure_start_ns=START_NS, measure_end_ns=END_NS)
    recording = together(of)
    summary["resources"] = usage(recording, START_NS, END_NS)
    window = Window.of(table, START_NS, END_NS)
    measured = Measured(window, recording, summary, PINNED, CPU, device_cores=(0, 1), hosts=of)
    return derive(measured)


def test_cpu_per_sample_and_cost_are_of_all_hosts() -> None:
    """1.0 cores of 200 samples/s; the price is of four cores, those of one host cost half."""
    both = figures(hosts())
    assert both["cpu_ms_per_sample"] == pytest.approx(5.0)
    measured = Measured(Window.of(records(5.0, noise=0), START_NS, END_NS), EMPTY, {}, PINNED, hosts=hosts())
    assert measured.granted_cores == 4.0
    assert replace(measured, hosts=()).granted_cores == 2.0
    (one,) = {entry["usd_per_hour"] for entry in both["cost"]["instances"][:1]}
    table = records(5.0, noise=0)
    alone = summarise(table, measure_start_ns=START_NS, measure_end_ns=END_NS)
    single = derive(Measured(Window.of(table, START_NS, END_NS), host(0.6), alone, PINNED, CPU))
    assert one == pytest.approx(2 * single["cost"]["instances"][0]["usd_per_hour"])


def test_whole_instances_are_paid_as_often_as_there_are_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a rate that says no number of cores: what all hosts answered is not had for the price of one."""
    (row, *_) = prices_for("cpu", str(EPYC["cpu"]))
    monkeypatch.setattr(cost, "prices_for", lambda kind, name: [row.model_copy(update={"vcpus": None})])
    (entry,) = figures(hosts())["cost"]["instances"]
    assert entry["usd_per_hour"] == pytest.approx(2 * row.usd_per_hour)
    table = records(5.0, noise=0)
    summary = summarise(table, measure_start_ns=START_NS, measure_end_ns=END_NS)
    alone = derive(Measured(Window.of(table, START_NS, END_NS), host(0.6), summary, PINNED, CPU))
    assert alone["cost"]["instances"][0]["usd_per_hour"] == pytest.approx(row.usd_per_hour)


def test_unlike_processors_have_no_price() -> None:
    """The first one's would be no price of the other; the reason names both."""
    cost = figures(hosts(hardware={**PINNED, "cpu": "Another CPU"}))["cost"]
    assert cost["usd_per_1k"] is None and "Another CPU" in cost["reason"] and EPYC["cpu"] in cost["reason"]


def test_what_the_first_host_alone_tells_is_withheld() -> None:
    """Its package's energy, its clock and its hardware threads are not those of all; so CO2 has no figure either."""
    both = figures(hosts())
    assert both["energy"]["joule_per_request"] is None and "2 hosts" in both["energy"]["reason"]
    assert both["carbon"]["g_per_1k"] is None and "2 hosts" in both["carbon"]["reason"]
    for part in ("clock", "siblings"):
        assert both["cpu_time"][part]["known"] is False and "2 hosts" in both["cpu_time"][part]["text"]
    assert both["quiet"]["latency_ms"] is None and "several hosts" in both["quiet"]["reason"]
    assert "host" not in both["resources"] and "rapl" not in both["resources"]


def test_a_quiet_pair_has_nothing_against_it() -> None:
    """Each server is its own host's alone: neither is foreign to either."""
    ledger = figures(hosts())["interference"]
    assert [*ledger["hosts"]] == ["replica 1", "replica 2"] and ledger["watched"]
    assert ledger["waits_ms"] is None and ledger["waits_reason"] == f"{OWN_CLOCKS}, and {ANY_REPLICA}"
    assert not [finding for finding in ledger["findings"] if finding["kind"] == "foreign_cpu"]
    assert all("foreign CPU" not in missing for missing in ledger["not_watched"])


def test_who_disturbs_a_further_host_disturbs_the_run() -> None:
    """It is told with that host's name, and not with the first one's."""
    ledger = figures(hosts(recording=host(0.4, others=1.0)))["interference"]
    found = [finding for finding in ledger["findings"] if finding["kind"] == "foreign_cpu"]
    assert [finding["host"] for finding in found] == ["replica 2"]
    assert found[0]["text"].startswith("on the host of replica 2 (b): processes that are neither")


def test_a_further_host_that_nobody_watched_makes_the_run_disturbed() -> None:
    """With nothing of it in the sums: the figures that need it are missing."""
    lost = figures(hosts(recording=EMPTY, unwatched="its clock is not known"))
    assert lost["cpu_ms_per_sample"] is None and lost["resources"]["server"].get("cpu_s_total") is None
    ledger = lost["interference"]
    assert not ledger["watched"] and ledger["hosts"]["replica 2"]["not_watched"] == ["its clock is not known"]
    assert "unwatched" in [reason.check for reason in reasons(ledger)]
