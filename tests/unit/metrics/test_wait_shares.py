"""Which part of the reported latencies was waits for a core, also of requests that live through many steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.metrics.base import Measured
from inferbench_tasks.metrics.interference import Interference, reasons
from inferbench_tasks.metrics.wait_shares import wait_shares
from inferbench_tasks.metrics.waiting import Waits
from inferbench_tasks.monitors.records import Recording, Series
from tests.unit.analysis.builders import SECOND, records
from tests.unit.metrics.spent import EPYC, counter

STEP_NS = 20_000_000
#: Requests that follow each other, as those of one user.
ONE_BY_ONE = {"latency_ms": 200.0, "rate_rps": 5}


def judged(
    waits_s: Any, *, others: float = 1.0, steps_from_s: float = 0.0, load: dict[str, Any] = ONE_BY_ONE
) -> dict[str, Any]:
    """The ledger of a load beside those waits of a thread of the server, in each step of 12 s.

    ``others``: cores that others use while the server and the load use none.
    """
    t_ns = np.arange(1, 601) * STEP_NS
    waits_s = np.where(t_ns > steps_from_s * SECOND, np.resize(waits_s, 600), 0.0)
    series = {
        ("wait", "server_longest_s"): Series(t_ns, waits_s),
        ("wait", "sender_longest_s"): Series(t_ns, np.zeros(600)),
        ("host", "cpu_busy_s_total"): counter(0.5 + others), ("host", "cpu_steal_s_total"): counter(0.0),
        ("server", "cpu_s_total"): counter(0.0 if others else 0.5), ("client", "cpu_s_total"): counter(0.0),
    }  # fmt: skip
    window = Window.of(records(noise=0, **load), 2 * SECOND, 10 * SECOND)
    return Interference().compute(Measured(window, Recording(series, {}), {}, EPYC))


def test_a_quiet_machine_takes_nothing_from_long_requests() -> None:
    """Without waits, and with half a millisecond in each step, answers of 200 ms are valid."""
    assert Verdict.judged(reasons(judged([0.0]))).valid
    assert Verdict.judged(reasons(judged([0.0005]))).valid


def test_waits_after_the_first_step_of_a_request_count() -> None:
    """40 of each 100 ms are waits: 80 ms of an answer of 200 ms, though most requests are sent while nothing waits.

    By the step in which a request is sent no wait would be met: two thirds of all answers, and a valid run.
    """
    found = judged([0.0, 0.0, 0.0, 0.02, 0.02])
    assert found["waits_ms"] == {name: pytest.approx(80.0, rel=0.01) for name in ("50", "95", "99", "mean")}
    verdict = Verdict.judged(reasons(found))
    assert verdict.kind == "disturbed"
    assert "200.0 ms (at most 50.0 ms of it)" in str(verdict)
    assert str(Verdict.read(str(verdict))) == str(verdict)


def test_a_wait_longer_than_a_step_is_of_the_time_before_it_ended() -> None:
    """Told at its end, a wait of 100 ms is met whole by who lived through it, for 30 by who came 30 before it ended."""
    end_ns = np.arange(1, 11, dtype=np.int64) * STEP_NS
    waits = Waits(end_ns, np.full(10, 0.02), np.where(np.arange(10) == 6, 0.1, 0.0))
    start_ns = np.array([0, 0, 110, 140, 50]) * 1_000_000
    done_ns = np.array([200, 40, 200, 200, 90]) * 1_000_000
    assert waits.within_s(start_ns, done_ns) == pytest.approx([0.1, 0.0, 0.03, 0.0, 0.04])


@pytest.mark.parametrize("wait_begins_ms", [0, 10, 20])
def test_requests_under_way_when_a_wait_begins_meet_it(wait_begins_ms: int) -> None:
    """1,000 requests/s of 19 ms of work, and a wait of 20 ms in each 64th step of 40 ms: 39 of 2,560 requests meet it.

    19 of them whole, 26 (1%) by 13 ms or more, 38 (1.5%) by 1 ms; a wait counts whole for all who meet it, as far
    as they took longer than the others. By the step of the sending alone 20 would (0.8%), and the p99 of 32 ms, of
    which 13 are others' doing, would be clean.
    """
    steps = 6400
    end_ns = np.arange(1, steps + 1, dtype=np.int64) * 40_000_000
    at = np.arange(50, steps, 64)
    waits = Waits(end_ns, np.full(steps, 0.04), np.where(np.isin(np.arange(steps), at), 0.02, 0.0))
    begin_ns = end_ns[at] - 40_000_000 + wait_begins_ms * 1_000_000
    sent_ns = np.arange(0, end_ns[-3], 1_000_000)
    done_ns = sent_ns + 19_000_000
    last = np.maximum(np.searchsorted(begin_ns, done_ns) - 1, 0)
    met_ns = np.clip(begin_ns[last] + 20_000_000 - np.maximum(sent_ns, begin_ns[last]), 0, None)
    met_ns = np.where(begin_ns[last] < done_ns, met_ns, 0)
    assert np.quantile(met_ns, 0.99) == pytest.approx(13e6, rel=0.1)
    one, two = waits.met_s(sent_ns, (0.01, 0.02), done_ns + met_ns)
    assert 0.013 <= one <= 0.02 and two == 0.0


def test_waits_that_no_request_lived_through_are_nothing() -> None:
    """Answers of 100 ms begin each 200 ms, and a thread waits in each pause between them."""
    load = {"latency_ms": 100.0, "rate_rps": 5}
    found = judged([0.0] * 5 + [0.018] * 4 + [0.0], load=load)
    assert set(found["waits_ms"].values()) == {0.0}
    assert Verdict.judged(reasons(found)).valid


def test_many_waits_too_short_for_a_percentile_are_of_the_mean() -> None:
    """A half of the answers takes 100 ms and waits for nothing, the others wait 100 of 200 ms, or of 500.

    Each percentile is clean: no wait in the typical answer, a fifth of the longest. Of the mean 29% are waits.
    """
    kind = np.arange(102) % 50
    latency_ms = np.where(kind < 26, 100.0, np.where(kind < 47, 200.0, 500.0))
    window = Window.of(records(latency_ms, rate_rps=1, seconds=100, noise=0), 2 * SECOND, 102 * SECOND)
    end_ns = np.arange(1, 102 * 50 + 1, dtype=np.int64) * STEP_NS
    waiting = (kind[np.arange(len(end_ns)) // 50] >= 26) & (np.arange(len(end_ns)) % 50 < 5)
    waits = Waits(end_ns, np.full(len(end_ns), 0.02), np.where(waiting, 0.02, 0.0))
    shares = {share.name: share for share in wait_shares(waits, window)}
    assert [name for name, share in shares.items() if share.wait_ms >= share.bound_ms] == ["mean"]
    assert shares["mean"].wait_ms / shares["mean"].latency_ms == pytest.approx(48 / 166, rel=0.01)


def test_one_stall_that_is_too_rare_for_a_percentile_is_not_of_the_mean_either() -> None:
    """A wait of 60 ms that 12 of 1,600 short requests met: the p99 is clean, and the mean is taken without them."""
    steps = np.where(np.arange(600) == 250, 0.06, 0.0)
    latency_ms = np.full(2000, 5.0)
    latency_ms[988:1000] = np.linspace(60, 5, 12)
    found = judged(steps, load={"latency_ms": latency_ms})
    assert found["waits_ms"]["mean"] < 0.1 and found["waits_ms"]["99"] == 0.0
    assert Verdict.judged(reasons(found)).valid


def test_long_waits_of_a_servers_own_threads_are_no_disturbance() -> None:
    """More busy threads than cores wait for one another in each step; nobody else uses the CPU."""
    assert judged([0.015], others=0.0)["findings"] == []


def test_waits_of_a_request_that_ends_after_the_window_count() -> None:
    """Answers of 2 s, of which some end after the window: what was waited from its end on is theirs, too.

    Of 40 two met 1.6 s or more: those that were sent 0.4 and 0.2 s before the end.
    """
    found = judged([0.02], steps_from_s=10.0, load={"latency_ms": 2000.0, "rate_rps": 5})
    assert found["waits_ms"]["95"] == pytest.approx(1600.0)
    assert Verdict.judged(reasons(found)).kind == "disturbed"
