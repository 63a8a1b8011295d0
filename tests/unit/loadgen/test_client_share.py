"""What the client made of a latency is withheld or makes the run invalid, however fast the server is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from inferbench_tasks.loadgen.certificate import Certificate, ClosedPlan, OpenPlan, ShardUsage, certify
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.heartbeat import MIN_STALL_NS, Heartbeat
from inferbench_tasks.loadgen.stability import withheld_for
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.submission.slo import SloSpec
from tests.samples import samples_table

S, MS = 1_000_000_000, 1_000_000
START, END = 100 * S, 120 * S
SERVICE_MS = 1.0


def _usage(stalls: list[tuple[int, int]] | None = None, max_stall_ns: int = 0) -> ShardUsage:
    lengths = [end - begin for begin, end in stalls or []]
    return ShardUsage(
        shard=0, cpu_s=2.0, wall_s=20.0, max_stall_ns=max([max_stall_ns, *lengths]),
        stalls_ns=None if stalls is None else tuple(stalls),
        stalled_ns=None if stalls is None else sum(lengths),
    )  # fmt: skip


def _schedule(rate_rps: float = 500.0) -> NDArray[np.int64]:
    rng = np.random.default_rng(1)
    return START + np.sort(rng.uniform(0, 20 * S, int(rate_rps * 20))).astype(np.int64)


def _open(
    lateness_ns: NDArray[np.int64], service_ms: float = SERVICE_MS, usage: ShardUsage | None = None
) -> tuple[Certificate, pa.Table]:
    planned = _schedule()
    sent_ns = planned + lateness_ns
    table = samples_table(
        {"intended_ns": planned, "sent_ns": sent_ns, "done_ns": sent_ns + int(service_ms * MS)}
    )
    certificate = certify(
        table, OpenPlan(planned), [usage or _usage([])], measure_start_ns=START, measure_end_ns=END
    )
    return certificate, table


def _failed(certificate: Certificate) -> set[str]:
    return {check.name for check in certificate.checks if not check.ok}


def _summary(table: pa.Table, certificate: Certificate) -> dict[str, Any]:
    summary = summarise(table, measure_start_ns=START, measure_end_ns=END)
    withhold(summary, certificate.withheld)
    return summary


def test_a_sender_that_sleeps_half_of_the_time_makes_the_median() -> None:
    """15.7: 9.3 of every 17 ms asleep: the p50 goes from 0.43 to 4.9 ms, all else holds, the run is invalid."""
    planned = _schedule()
    phase = planned % (17 * MS)
    lateness = np.where(phase < 9.3 * MS, 9.3 * MS - phase, 0).astype(np.int64)
    certificate, _ = _open(lateness, service_ms=0.43)
    assert _failed(certificate) == {"client_share_p50"}
    (reason,) = certificate.reasons
    assert reason.figure is not None and reason.bound == pytest.approx(0.43) and reason.unit == "ms"
    assert "of the p50 of" in reason.text and "are the client's own" in reason.text


def test_a_p99_that_late_requests_made_is_withheld_with_the_reason() -> None:
    """15.7: 1.5% sent 9.9 ms late: the p99 goes from 1 to 10.9 ms. It is None, p50 to p95 stand, the run is valid."""
    lateness = np.where(np.arange(10_000) % 67 == 0, int(9.9 * MS), 0)
    certificate, table = _open(lateness)
    assert certificate.valid, certificate.reasons
    stats = _summary(table, certificate)["e2e_latency_ms"]
    assert (stats["p50"], stats["p95"], stats["p99"]) == (1.0, 1.0, None)
    assert stats["ci95"]["p99"] is None
    assert "up to 9.90 ms of the p99 of 10.90 ms are the client's own" in stats["withheld"]["p99"]
    assert certificate.figures["client_made_ms"]["p99"] == pytest.approx(9.9)


def test_what_late_requests_made_of_a_slow_server_stands() -> None:
    """The same lateness beside 100 ms of latency is a tenth of the p99: nothing is withheld."""
    lateness = np.where(np.arange(10_000) % 67 == 0, int(9.9 * MS), 0)
    certificate, table = _open(lateness, service_ms=100)
    assert certificate.valid, certificate.reasons
    assert certificate.withheld == {}
    assert _summary(table, certificate)["e2e_latency_ms"]["p99"] == pytest.approx(109.9)


def _held_up(every_ns: int, for_ns: int, users: int = 4, service_ns: int = 10 * MS) -> tuple[pa.Table, Any]:
    """A closed loop whose sender is deaf for a while, again and again: its answers are stamped at the end of it."""
    stalls = [(at, at + for_ns) for at in range(START + every_ns // 2, END, every_ns)]
    begins = np.array([begin for begin, _ in stalls])
    intended, done = [], []
    for user in range(users):
        now = START - S + user * service_ns // users
        while now < END:
            end = now + service_ns
            at = int(np.searchsorted(begins, end, "right")) - 1
            if at >= 0 and end < stalls[at][1]:
                end = stalls[at][1]
            intended.append(now)
            done.append(end)
            now = end
    order = np.argsort(intended, kind="stable")
    intended_ns = np.array(intended)[order]
    phase = np.where((intended_ns >= START) & (intended_ns < END), "measure", "warmup")
    columns = {"intended_ns": intended_ns, "done_ns": np.array(done)[order], "phase": phase.tolist()}
    return samples_table(columns), stalls


def test_a_closed_loop_that_is_held_up_again_and_again_is_invalid() -> None:
    """15.7: 95 ms every 0.8 s: each below the limit of one stall, the p99 goes from 10 to 98 ms, and 12% are lost."""
    table, stalls = _held_up(800 * MS, 95 * MS)
    certificate = certify(table, ClosedPlan(4), [_usage(stalls)], measure_start_ns=START, measure_end_ns=END)
    assert _failed(certificate) == {"client_stalled"}
    assert certificate.figures["stalled_ratio"] == pytest.approx(0.119, abs=0.001)
    assert (
        "p99" in certificate.withheld["e2e_latency_ms"] and "p99" in certificate.withheld["send_latency_ms"]
    )
    stats = _summary(table, certificate)["e2e_latency_ms"]
    assert stats["p50"] == pytest.approx(10.0) and stats["p99"] is None


def test_a_few_stalls_withhold_the_percentile_that_they_made_and_no_more() -> None:
    """50 ms every 2 s is 2.5% of the window: valid, p50 and p90 stand, and the p99 is the client's."""
    table, stalls = _held_up(2000 * MS, 50 * MS)
    certificate = certify(table, ClosedPlan(4), [_usage(stalls)], measure_start_ns=START, measure_end_ns=END)
    assert certificate.valid, certificate.reasons
    assert set(certificate.withheld["e2e_latency_ms"]) <= {"p99", "p999"}
    assert certificate.withheld["e2e_latency_ms"]


def test_slow_answers_outside_of_the_stalls_are_the_servers() -> None:
    """The same latencies with a sender that was never held up are the server's own, and stand."""
    table, _ = _held_up(2000 * MS, 50 * MS)
    certificate = certify(table, ClosedPlan(4), [_usage([])], measure_start_ns=START, measure_end_ns=END)
    assert certificate.valid and certificate.withheld == {}


def test_without_a_list_of_stalls_the_worst_is_held_against_every_answer() -> None:
    """A sender that tells its worst stall alone may have had it again and again: 95 ms beside 10 ms is invalid."""
    table, _ = _held_up(800 * MS, 95 * MS)
    usage = _usage(None, max_stall_ns=95 * MS)
    certificate = certify(table, ClosedPlan(4), [usage], measure_start_ns=START, measure_end_ns=END)
    assert "client_share_p50" in _failed(certificate)


def test_a_median_that_the_timers_of_a_fast_machine_made_is_reported() -> None:
    """0.1 ms of lateness beside 0.1 ms of latency are the timer's, below the floor of half a millisecond."""
    certificate, _ = _open(np.full(10_000, MS // 10), service_ms=0.1)
    assert certificate.valid and certificate.withheld == {}


def test_a_mean_that_the_client_made_is_withheld() -> None:
    """A tenth of the requests 19 ms late, beside 1 ms: the mean is three times the server's."""
    lateness = np.where(np.arange(10_000) % 10 == 0, 19 * MS, 0)
    certificate, table = _open(lateness)
    stats = _summary(table, certificate)["e2e_latency_ms"]
    assert stats["mean"] is None and stats["p50"] == 1.0


def test_a_heartbeat_lists_its_stalls_and_keeps_the_longest() -> None:
    """Short delays are no stalls, the sum counts those of 5 ms and more, a long list loses its shorter half."""
    beat = Heartbeat.__new__(Heartbeat)
    beat._max_stall_ns = beat._stalled_ns = 0
    beat._stalls_ns = []
    lengths = [MIN_STALL_NS - 1, *(MIN_STALL_NS + i * 1000 for i in range(8193))]
    for number, length in enumerate(lengths):
        beat._due_ns = number * S
        beat._note_stall(beat._due_ns + length)
    assert beat._stalled_ns == sum(
        length for length in lengths if length >= 5 * MS
    ) and beat._max_stall_ns == max(lengths)
    assert len(beat._stalls_ns) == 4096 and beat._stalls_ns == sorted(beat._stalls_ns)
    assert min(end - begin for begin, end in beat._stalls_ns) > MIN_STALL_NS + 4_000_000


def test_a_stall_is_held_against_the_answers_of_its_own_sender() -> None:
    """Two senders, one of which was held up for 60 ms: the other's answers of that time are the server's."""
    planned = _schedule()
    shard = np.arange(len(planned)) % 2
    begin, end = START + 5 * S, START + 5 * S + 60 * MS
    done = planned + MS
    inside = (done >= begin) & (done < end)
    for owner in (0, 1):
        stamped = np.where(inside & (shard == owner), end, done)
        columns = {"intended_ns": planned, "shard": shard, "done_ns": stamped}
        usages = [_usage([(begin, end)]), _usage([]).model_copy(update={"shard": 1})]
        certificate = certify(
            samples_table(columns), OpenPlan(planned), usages, measure_start_ns=START, measure_end_ns=END
        )
        # About 15 requests that waited 30 ms each, of 10,000.
        own_ms = certificate.figures["client_made_ms"].get("mean", 0.0)
        assert (own_ms > 0.02) == (owner == 0)


def test_what_is_made_of_withheld_latencies_is_withheld_too() -> None:
    """Waits in the breakdown, the goodput and the first request's ratio depend on how long a load lasted whose backlog
    grew, as its percentiles do; the time of the server's own work does not.
    """
    span = {name: np.full(400, MS // 10) for name in ("server_preprocess_ns", "server_queue_ns", "server_inference_ns",
                                                     "server_postprocess_ns")}  # fmt: skip
    intended = np.arange(-100, 300) * 10 * MS + 10 * S
    table = samples_table(
        {"intended_ns": intended, "done_ns": intended + MS,
         "phase": ["warmup" if t < 10 * S else "measure" for t in intended], **span}
    )  # fmt: skip
    slo = SloSpec.model_validate({"p95_ms": 20.0})
    summary = summarise(table, measure_start_ns=10 * S, measure_end_ns=13 * S, slo=slo)
    assert summary["goodput_rps"] == pytest.approx(100, rel=0.01)
    withhold(summary, withheld_for("the backlog grew"))
    assert summary["goodput_rps"] is None
    assert summary["cold_start"]["first_to_steady_ratio"] is None
    stages = summary["stages_ms"]
    assert stages["queue"]["mean"] is stages["transmit"]["mean"] is None
    assert stages["inference"]["mean"] == pytest.approx(0.1)


@pytest.mark.parametrize(("late_ms", "fails"), [(0.08, False), (0.15, True), (0.4, True)])
def test_beside_a_server_faster_than_the_floor_the_client_makes_no_more_than_the_server(
    late_ms: float, fails: bool
) -> None:
    """An answer of 0.1 ms that leaves 0.4 ms late was shown as a valid median of 0.5 ms."""
    late = np.full(10_000, int(late_ms * MS), np.int64)
    certificate, _ = _open(late, service_ms=0.1)
    assert ("client_share_p50" in _failed(certificate)) is fails


def test_a_p99_of_a_fast_server_that_late_requests_made_is_withheld() -> None:
    """2% leave 0.9 ms late: below the floor of a millisecond, and nine times what the server took."""
    late = np.zeros(10_000, np.int64)
    late[::50] = int(0.9 * MS)
    certificate, table = _open(late, service_ms=0.1)
    assert certificate.valid and _summary(table, certificate)["e2e_latency_ms"]["p99"] is None
