"""Waits for a core that others caused, in time: what the requests of a run met of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics import interference, waiting
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.interference import reasons
from inferbench_tasks.metrics.waiting import Waits
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import counter, measure

STEP_NS = 20_000_000


def recording(
    wait_ms: float, *, each: int, foreign_cores: float, start_s: float = 0.0
) -> dict[tuple[str, str], Series]:
    """Twelve seconds; a thread of the server waits so long in each so-manyth step, from ``start_s`` on."""
    t_ns = np.arange(0, 12 * SECOND, STEP_NS)
    waits_s = np.where((np.arange(len(t_ns)) % each == 0) & (t_ns >= start_s * SECOND), wait_ms / 1e3, 0.0)
    return {
        ("wait", "server_longest_s"): Series(t_ns, waits_s),
        ("wait", "sender_longest_s"): Series(t_ns, np.zeros(len(t_ns))),
        ("host", "cpu_busy_s_total"): counter(0.4 + foreign_cores),
        ("host", "cpu_steal_s_total"): counter(0.0),
        ("server", "cpu_s_total"): counter(0.3), ("client", "cpu_s_total"): counter(0.1),
    }  # fmt: skip


def late(more_ms: float, one_in: int) -> Any:
    """Latencies of 5 ms, and of so much more for one request in so many."""
    return np.where(np.arange(2000) % one_in == 0, 5.0 + more_ms, 5.0)


def ledger(latency_ms: Any = 5.0, **waits: Any) -> dict[str, Any]:
    """Of a load with those latencies."""
    found: dict[str, Any] = measure(recording(**waits), latency_ms=latency_ms)["interference"]
    return found


def test_foreign_cpu_that_reaches_the_reported_tail_makes_a_run_disturbed() -> None:
    """Three busy loops beside a small server: half of the machine, and 1% of the requests wait for 8 ms behind them."""
    verdict = Verdict.judged(reasons(ledger(late(8, 50), wait_ms=10, each=20, foreign_cores=1.6)))
    assert verdict.kind == "disturbed" and verdict.disturbed
    assert str(verdict) == (
        "disturbed: server or sender waited 8.0 ms or more for a core behind other processes while 1% of the requests "
        "were under way, and the p99 is 13.0 ms (at most 3.2 ms of it)"
    )
    assert str(Verdict.read(str(verdict))) == str(verdict) and len(Verdict.read(str(verdict)).reasons) == 1


def test_a_wait_is_met_by_those_that_were_sent_while_it_lasted() -> None:
    """2 ms in each step of 20 ms: a request in ten meets one, so the tail does and the median does not."""
    waits_ms = ledger(late(1.6, 3), wait_ms=2, each=1, foreign_cores=1.6)["waits_ms"]
    assert waits_ms == {
        "50": 0.0,
        "95": pytest.approx(1.6),
        "99": pytest.approx(1.6),
        "mean": pytest.approx(0.44, rel=0.05),
    }


def test_foreign_cpu_that_takes_nothing_from_the_requests_is_no_reason() -> None:
    """Others use most of the machine, only where nobody else wants it: shown, and the run is valid."""
    found = ledger(wait_ms=0.2, each=1, foreign_cores=1.6)
    assert [finding["kind"] for finding in found["findings"]] == ["foreign_cpu"]
    assert Verdict.judged(reasons(found)).valid


def test_a_servers_wait_for_itself_is_no_disturbance() -> None:
    """With nobody else on the machine its threads wait for one another, however long."""
    assert ledger(wait_ms=15, each=1, foreign_cores=0.0)["findings"] == []


def test_a_burst_that_is_small_in_the_whole_run_counts_by_whom_it_met() -> None:
    """Half a second of ten is foreign: by the mean over the run it would hardly be; by its own second it is."""
    series = recording(wait_ms=18, each=1, foreign_cores=0.0, start_s=9.5)
    busy = np.arange(13) * 0.4
    busy[10:] += 0.8  # within one second
    series["host", "cpu_busy_s_total"] = Series(np.arange(13) * SECOND, busy)
    findings = measure(series, latency_ms=late(14, 50))["interference"]["findings"]
    assert [finding["kind"] for finding in findings if finding["quarantine"]] == ["foreign_wait"]


def bursts(*, others: bool) -> dict[tuple[str, str], Series]:
    """In each second both cores are taken for 40 ms, by others or by the server's own threads: a thread waits 30."""
    t_ns = np.arange(0, 12 * SECOND, STEP_NS)
    step = np.arange(len(t_ns)) % 50
    used = np.cumsum(np.where((step == 10) | (step == 11), 0.04, 0.0))
    series = recording(wait_ms=0, each=1, foreign_cores=0.08 if others else 0.0)
    series["wait", "server_longest_s"] = Series(t_ns, np.where(step == 11, 0.030, 0.0))
    series["wait", "foreign_s_total"] = Series(t_ns, used if others else np.zeros(len(t_ns)))
    if not others:
        series["server", "cpu_s_total"] = Series(t_ns, used + t_ns / SECOND * 0.3)
        series["host", "cpu_busy_s_total"] = Series(t_ns, used + t_ns / SECOND * 0.4)
    return series


def test_short_bursts_of_others_are_not_thinned_out_over_their_second() -> None:
    """15.11: 80 ms of CPU a second are 17% of what is used in it, but nearly all while a thread waited 30 ms.

    Of the wait counts what others ran of all that ran while it lasted: 80 ms of about 100, at most what the slow
    ones took longer. The p99 of 19 ms may have 4.75 ms of it, and 3% of the requests meet such waits.
    """
    found = measure(bursts(others=True), latency_ms=late(14, 50))["interference"]
    (finding,) = [finding for finding in found["findings"] if finding["quarantine"]]
    assert finding["kind"] == "foreign_wait" and finding["value"] == pytest.approx(14.0)
    assert Verdict.judged(reasons(found)).kind == "disturbed"
    assert Verdict.judged(reasons(measure(bursts(others=False))["interference"])).valid


@pytest.mark.parametrize("metric", ["server_pressure_s_total", "pressure_s_total"])
def test_pressure_speaks_where_the_kernel_keeps_no_threads_waits(metric: str) -> None:
    """The server's cgroup's, else the machine's: 10 of each 200 ms, of which others caused four fifths.

    They are met by who is sent in these 8 ms, and by who is under way when they begin, with 5 ms each: 13 of 200.
    """
    series = recording(wait_ms=0, each=1, foreign_cores=1.6)
    t_ns = series.pop(("wait", "server_longest_s")).t_ns
    series["wait", metric] = Series(t_ns, np.cumsum(np.where(np.arange(len(t_ns)) % 10 == 0, 0.010, 0.0)))
    found = measure(series, latency_ms=late(8, 15))["interference"]
    assert found["waits_ms"] == {
        "50": 0.0,
        "95": pytest.approx(8.0),
        "99": pytest.approx(8.0),
        "mean": pytest.approx(0.23, rel=0.05),
    }
    assert "foreign_wait" in [finding["kind"] for finding in found["findings"] if finding["quarantine"]]
    assert Verdict.judged(reasons(found)).kind == "disturbed"


def test_what_a_share_of_the_requests_met() -> None:
    """By hand: 100 requests a step of 20 ms; 10 ms of wait are met by half of a step's requests."""
    end_ns = np.arange(1, 11, dtype=np.int64) * STEP_NS
    wait_s = np.array([0.010, 0.020] + [0.0] * 8)
    waits = Waits(end_ns, np.full(10, 0.02), wait_s)
    sent_ns = np.repeat(end_ns, 100)
    # one whole step: 100 of 1000, and half of another
    assert waits.met_s(sent_ns, (0.10, 0.15, 0.16)) == [0.020, 0.010, 0.0]
    assert waits.met_s(sent_ns[:0], (0.5,)) == [0.0]


def test_waits_that_nobody_looked_at_are_not_none() -> None:
    """The recording of the waits ends after 3 of 8 s: what other requests met is not known, and the result says so."""
    series = recording(wait_ms=10, each=20, foreign_cores=1.6)
    for key in [key for key in series if key[0] == "wait"]:
        whole = series[key]
        early = whole.t_ns < 5 * SECOND
        series[key] = Series(whole.t_ns[early], whole.values[early])
    found = measure(series)["interference"]
    assert found["waits_ms"] is None
    assert "waits for a core over time" in found["not_watched"]


def test_others_whose_effect_nobody_saw_make_a_run_disturbed() -> None:
    """15.11: where neither waits nor pressure are told, the 1.6 cores that others used may have cost anything.

    Without others nothing stands against the run; without their use either, nobody watched it.
    """
    series = recording(wait_ms=0, each=1, foreign_cores=1.6)
    for key in [key for key in series if key[0] == "wait"]:
        del series[key]
    found = Verdict.judged(reasons(measure(series)["interference"]))
    assert str(found).startswith("disturbed: processes that are neither server nor load used 1.60 of")
    assert "whether server or sender waited for them was not seen" in str(found)
    alone = {**series, ("host", "cpu_busy_s_total"): counter(0.4)}
    assert Verdict.judged(reasons(measure(alone)["interference"])).valid
    del series["server", "cpu_s_total"]
    assert str(Verdict.judged(reasons(measure(series)["interference"]))).startswith("invalid: nobody watched")


def test_a_median_of_a_fast_server_that_others_made_is_disturbed() -> None:
    """0.8 ms of waits behind others in a median of 1.2 ms are two thirds of it, however few milliseconds they are."""
    series = recording(wait_ms=20.0, each=1, foreign_cores=1.6)
    table = records(1.2, noise=0)
    window = Window.of(table, 2 * SECOND, 10 * SECOND)
    end_ns = np.arange(1, 12_001, dtype=np.int64) * 2_000_000  # steps that a request ends in
    waits = Waits(end_ns, np.full(len(end_ns), 0.002), np.full(len(end_ns), 0.0016))
    found: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "foreign_waits", lambda recording, window: waits)
        interference._waits(Measured(window, Recording(series, {}), {}, {}), found, [])
    assert found and found[0]["quarantine"] and found[0]["bound"] == pytest.approx(0.5)
    assert found[0]["text"].endswith("ms of it)")


def test_a_warning_of_waits_says_that_it_is_one() -> None:
    """0.3 ms of a median of 1.2 ms are more than half of the 0.5 ms that would be too much, and no disturbance."""
    window = Window.of(records(1.2, noise=0), 2 * SECOND, 10 * SECOND)
    end_ns = np.arange(1, 12_001, dtype=np.int64) * 2_000_000
    waits = Waits(end_ns, np.full(len(end_ns), 0.002), np.full(len(end_ns), 0.0006))
    found: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "foreign_waits", lambda recording, window: waits)
        measured = Measured(window, Recording(recording(wait_ms=0, each=1, foreign_cores=0.0), {}), {}, {})
        interference._waits(measured, found, [])
    (finding,) = found
    assert not finding["quarantine"] and finding["bound"] == pytest.approx(0.25)
    assert finding["text"].endswith("more than half of what would be too much")


def test_many_short_waits_are_not_taken_for_a_long_one_that_no_answer_shows() -> None:
    """1.5 ms of each step of 20 ms in waits of microseconds: one of 1.5 ms would make 9% of the answers of 0.5 ms late.

    The slowest hundredth took 0.6 ms longer than the median; so much of it may have been waits, and no more.
    """
    end_ns = np.arange(1, 51, dtype=np.int64) * STEP_NS
    waits = Waits(end_ns, np.full(50, 0.02), np.full(50, 0.0015))
    sent_ns = np.arange(0, end_ns[-2], 400_000)
    done_ns = sent_ns + np.where(np.arange(len(sent_ns)) % 50 == 0, 1_100_000, 500_000)
    assert waits.met_s(sent_ns, (0.01,), done_ns) == [pytest.approx(0.0006)]
    assert waits.met_s(sent_ns, (0.01,)) == [0.0015]
