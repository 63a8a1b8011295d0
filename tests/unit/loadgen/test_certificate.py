"""The certificate: noise passes, a stopped, starved or cheating sender does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.certificate import (
    Certificate,
    ClosedPlan,
    OpenPlan,
    ShardUsage,
    Thresholds,
    certify,
)
from tests.samples import samples_table

S = 1_000_000_000
MS = 1_000_000
START = 100 * S


def _usage(shard: int = 0, cpu_s: float = 2.0, max_stall_ms: int = 8) -> ShardUsage:
    """A sender that was held up once, in the tenth second."""
    stall = (START + 10 * S, START + 10 * S + max_stall_ms * MS)
    return ShardUsage(
        shard=shard, cpu_s=cpu_s, wall_s=20.0, max_stall_ns=max_stall_ms * MS, stalls_ns=(stall,),
        stalled_ns=max_stall_ms * MS,
    )  # fmt: skip


QUIET = (_usage(),)


def _poisson(rate_rps: float, duration_s: float, seed: int = 1) -> NDArray[np.int64]:
    rng = np.random.default_rng(seed)
    times = rng.uniform(0, duration_s * S, rng.poisson(rate_rps * duration_s))
    return START + np.sort(times).astype(np.int64)


def _noise_ns(count: int, seed: int = 2) -> NDArray[np.int64]:
    """Lateness of a timer on a busy two-core machine: median 0.1 ms, p99 about 4 ms."""
    rng = np.random.default_rng(seed)
    return np.minimum(rng.lognormal(np.log(0.1), 1.6, count) * MS, 15 * MS).astype(np.int64)


def _stopped(sent_ns: NDArray[np.int64], at_ns: int, for_ns: int) -> NDArray[np.int64]:
    """What SIGSTOP does: all that was due in the pause leaves at its end."""
    return np.where((sent_ns >= at_ns) & (sent_ns < at_ns + for_ns), at_ns + for_ns, sent_ns)


def _open(
    planned: NDArray[np.int64],
    sent_ns: NDArray[np.int64],
    *,
    duration_s: float = 20,
    shards: tuple[ShardUsage, ...] = QUIET,
    service_ms: float = 5.0,
    thresholds: Thresholds | None = None,
    plan: OpenPlan | None = None,
    **columns: Any,
) -> Certificate:
    done_ns = sent_ns + int(service_ms * MS)
    table = samples_table({"intended_ns": planned, "sent_ns": sent_ns, "done_ns": done_ns} | columns)
    return certify(
        table, plan or OpenPlan(planned), shards, measure_start_ns=START,
        measure_end_ns=START + int(duration_s * S), thresholds=thresholds,
    )  # fmt: skip


def _failed(certificate: Certificate) -> set[str]:
    return {check.name for check in certificate.checks if not check.ok}


def texts(certificate: Certificate) -> list[str]:
    """The certificate's reasons, in words."""
    return [reason.text for reason in certificate.reasons]


def _one_by_one(planned: NDArray[np.int64], service_ms: float, late_ns: int = 0) -> NDArray[np.int64]:
    """When each leaves of one connection: as soon as the one before it is answered, and so much later."""
    sent_ns, free_ns = [], 0
    for moment in planned.tolist():
        sent_ns.append(max(moment, free_ns) + late_ns)
        free_ns = sent_ns[-1] + int(service_ms * MS)
    return np.array(sent_ns)


def test_a_wait_for_the_connection_that_was_asked_for_is_no_delay_of_the_client() -> None:
    """Half the time busy by 50 ms each: waits of hundreds of ms are the load's with one connection, else the client's;
    they are told, and no figure is withheld for them.
    """
    planned = _poisson(10, 20)
    sent_ns = _one_by_one(planned, 50)
    asked = _open(planned, sent_ns, service_ms=50, plan=OpenPlan(planned, connections=(1,)))
    assert asked.valid, texts(asked)
    assert asked.withheld == {}
    assert asked.figures["connection_wait_max_ms"] == pytest.approx(float((sent_ns - planned).max() / 1e6))
    assert ["one of 1 connection that were asked for" in text for text in asked.warnings] == [True]
    nobody = _open(planned, sent_ns, service_ms=50)
    assert {"lateness_p99", "client_share"} <= _failed(nobody)
    assert "connection_wait_max_ms" not in nobody.figures


def test_a_client_that_is_late_though_its_connection_is_free_is_found() -> None:
    """20 ms at each send, which queue up with the service: only the wait for answers is the load's."""
    planned = _poisson(10, 20)
    late = _open(
        planned, _one_by_one(planned, 50, 20 * MS), service_ms=50, plan=OpenPlan(planned, connections=(1,))
    )
    assert "lateness_p50" in _failed(late)
    assert late.figures["lateness_p50_ms"] == pytest.approx(20)


def test_a_queue_before_one_connection_that_grows_is_a_backlog() -> None:
    """10 requests/s of half a second each: latencies depend on the load's length, though one is in flight at once."""
    planned = START + np.arange(200) * S // 10
    certificate = _open(
        planned, _one_by_one(planned, 500), service_ms=500, plan=OpenPlan(planned, connections=(1,))
    )
    assert certificate.figures["growing_backlog"] is not None
    assert certificate.figures["rate_error_ratio"] == 0


@pytest.mark.parametrize("rate_rps", [5, 50, 500, 5000])
def test_plain_scheduling_noise_is_valid(rate_rps: float) -> None:
    """Lateness as timers have it on a busy machine passes at any rate, and no check is skipped silently."""
    planned = _poisson(rate_rps, 20)
    certificate = _open(planned, planned + _noise_ns(len(planned)))
    assert certificate.valid, certificate.reasons
    assert certificate.warnings == []
    assert certificate.figures["gap_distance"] < 0.05


def test_equal_gaps_with_jitter_are_still_equal_gaps() -> None:
    """The plain Kolmogorov-Smirnov distance condemns a nanosecond of jitter; the judged one does not."""
    planned = START + np.arange(0, 20 * S, 10 * MS)
    certificate = _open(planned, planned + _noise_ns(len(planned)))
    assert certificate.valid, certificate.reasons
    assert certificate.figures["gap_ks_plain"] > 0.4


@pytest.mark.parametrize("rate_rps", [20, 500, 5000])
@pytest.mark.parametrize("duration_s", [20, 600])
def test_a_sender_stopped_for_200_ms_is_invalid(rate_rps: float, duration_s: float) -> None:
    """However long the run is, so that no percentile would show it; the reason has both numbers."""
    if rate_rps * duration_s > 500_000:
        duration_s = 60
    planned = _poisson(rate_rps, duration_s)
    sent_ns = _stopped(planned + _noise_ns(len(planned)), START + 7 * S, 200 * MS)
    certificate = _open(planned, sent_ns, duration_s=duration_s)
    assert not certificate.valid
    assert "lateness_max" in _failed(certificate)
    reason = next(r for r in certificate.reasons if r.check == "lateness_max")
    assert (
        reason.figure == certificate.figures["lateness_max_ms"]
        and reason.bound == 100
        and reason.unit == "ms"
    )
    assert reason.text.startswith("the worst request left")
    assert f"{certificate.figures['lateness_max_ms']:.1f} ms late (at most 100 ms)" in reason.text


def test_a_stop_that_no_request_met_is_seen_by_the_heartbeat() -> None:
    """While nothing is due a stopped sender still stamps the answers too late."""
    planned = START + np.arange(0, 20 * S, S)
    usage = (_usage(shard=3, max_stall_ms=203),)
    certificate = _open(planned, planned, shards=usage)
    assert _failed(certificate) == {"client_stall"}
    assert "shard 3 was held up for 203.0 ms (at most 100 ms)" in certificate.reasons[0].text


def test_a_client_out_of_cpu_is_invalid() -> None:
    """The busiest shard counts, not their mean."""
    shards = (*QUIET, _usage(shard=1, cpu_s=19.0, max_stall_ms=0))
    planned = _poisson(50, 20)
    certificate = _open(planned, planned, shards=shards)
    assert certificate.reasons[0].model_dump(exclude={"text"}, exclude_none=True) == {
        "check": "client_cpu", "figure": 0.95, "bound": 0.85, "unit": "cores",
    }  # fmt: skip
    assert texts(certificate) == [
        "the sender of shard 1 used 95% of a core (at most 85%): the client was the bottleneck; use more "
        "shards or a lower load"
    ]


def test_requests_without_a_record_are_invalid() -> None:
    """A record that got lost takes its latency with it."""
    planned = _poisson(100, 20)
    certificate = _open(planned[5:], planned[5:], plan=OpenPlan(planned))
    assert _failed(certificate) == {"unrecorded"}
    assert f"{len(planned)} requests were planned and {len(planned) - 5} recorded: 5 differ" in texts(
        certificate
    )


def test_a_schedule_moved_under_way_is_invalid() -> None:
    """Re-anchoring after a backlog makes every lateness zero: coordinated omission."""
    planned = _poisson(100, 20)
    moved = np.where(planned > START + 10 * S, planned + 5 * MS, planned)
    moved = moved[moved < START + 20 * S]
    certificate = _open(moved, moved, plan=OpenPlan(planned[: len(moved)]))
    assert "schedule_moved" in _failed(certificate)


def test_a_rate_that_was_not_reached_is_invalid() -> None:
    """A sender that falls behind more and more delivers less in the window than was planned."""
    planned = _poisson(1000, 20)
    slow = START + ((planned - START) * 1.05).astype(np.int64)
    certificate = _open(planned, slow)
    assert {"rate", "lateness_p50", "lateness_p99", "lateness_max", "client_share"} <= _failed(certificate)


def test_bursts_instead_of_gaps_are_invalid() -> None:
    """Sends that wait for a tick of 20 ms keep rate and median latency, and are another arrival process."""
    planned = _poisson(2000, 20)
    ticks = START + -(-(planned - START) // (20 * MS)) * 20 * MS
    certificate = _open(
        planned, ticks, service_ms=50, thresholds=Thresholds(lateness_p50_ms=50, lateness_p99_ms=50)
    )
    assert _failed(certificate) == {"gaps"}


def test_a_percentile_made_of_lateness_is_invalid() -> None:
    """0.2% of the requests are 60 ms late: no other limit sees it, and the p99.9 would be the sender's."""
    planned = _poisson(1000, 20)
    sent_ns = planned + np.where(np.arange(len(planned)) % 500 == 0, 60 * MS, 0)
    certificate = _open(planned, sent_ns)
    assert _failed(certificate) == {"client_share"}
    assert (
        "the p999 is 65.0 ms from the intended moment but 5.0 ms from the send" in certificate.reasons[0].text
    )


def test_lateness_is_judged_against_the_latency_of_the_server() -> None:
    """40 ms of lateness are too much beside 5 ms of latency and harmless beside 400 ms."""
    planned = _poisson(10, 60)
    sent_ns = planned + np.where(np.arange(len(planned)) % 50 == 0, 40 * MS, 0)
    assert "lateness_p99" in _failed(_open(planned, sent_ns, duration_s=60))
    assert _open(planned, sent_ns, duration_s=60, service_ms=400).valid


def test_sending_before_the_time_is_invalid() -> None:
    """No request may leave before it is due."""
    planned = _poisson(100, 20)
    certificate = _open(planned, planned - 1000)
    assert "sent_early" in _failed(certificate)


@pytest.mark.parametrize(
    ("status", "share", "name"),
    [("timeout", 0.02, "errors"), ("timeout", 0.005, None), ("dropped", 0.005, "dropped")],
)
def test_failed_and_dropped_requests_have_limits_of_their_own(
    status: str, share: float, name: str | None
) -> None:
    """Errors of the server up to 1%, requests never sent up to 0.1%."""
    planned = _poisson(1000, 20)
    bad = np.arange(len(planned)) < share * len(planned)
    certificate = _open(
        planned,
        np.where(bad & (status == "dropped"), -1, planned),
        done_ns=np.where(bad & (status == "dropped"), -1, planned + 5 * MS),
        status=np.where(bad, status, "ok").tolist(),
    )
    assert _failed(certificate) == ({name} if name else set())


def test_records_on_the_wrong_side_of_the_window_are_invalid() -> None:
    """A label that contradicts the window means that someone's idea of the window is wrong."""
    planned = _poisson(100, 20)
    phases = ["warmup", *["measure"] * (len(planned) - 1)]
    certificate = _open(planned, planned, phase=phases, plan=OpenPlan(planned[1:]))
    assert _failed(certificate) == {"mislabelled_records"}


def test_a_hundred_thousand_requests_at_one_instant_are_judged() -> None:
    """All at once: gaps of zero break nothing; handing them over took 50 ms and that is said."""
    planned = np.full(100_000, START)
    sent_ns = START + np.linspace(0, 50 * MS, 100_000).astype(np.int64)
    certificate = _open(planned, sent_ns)
    assert "lateness_p99" in _failed(certificate)
    assert certificate.figures["gap_distance"] is None
    offline = _open(planned, sent_ns, plan=OpenPlan(planned, paced=False))
    assert offline.valid, offline.reasons


def test_a_growing_backlog_is_a_warning() -> None:
    """An overloaded server is a fact about the server: the stimulus was right."""
    planned = _poisson(100, 20)
    done_ns = planned + (planned - START) // 2
    table = samples_table({"intended_ns": planned, "done_ns": done_ns})
    certificate = certify(
        table, OpenPlan(planned), QUIET, measure_start_ns=START, measure_end_ns=START + 20 * S
    )
    assert certificate.valid, certificate.reasons
    assert "backlog grew" in certificate.warnings[0]


def _closed(users: int, latency_ms: float, pause_ms: float, think_ms: float = 0.0) -> pa.Table:
    """``pause_ms``: what the client needs between an answer and the next request, beside the thinking."""
    cycle = int((latency_ms + pause_ms + think_ms) * MS)
    sent_ns = np.concatenate(
        [START - S + user * cycle // users + np.arange(0, 25 * S, cycle) for user in range(users)]
    )
    phase = np.where((sent_ns >= START) & (sent_ns < START + 20 * S), "measure", "warmup")
    return samples_table(
        {"intended_ns": sent_ns, "done_ns": sent_ns + int(latency_ms * MS), "phase": phase.tolist()}
    )


def _certify_closed(table: pa.Table, plan: ClosedPlan) -> Certificate:
    return certify(table, plan, QUIET, measure_start_ns=START, measure_end_ns=START + 20 * S)


def test_a_closed_loop_with_all_users_busy_is_valid() -> None:
    """With think time too: Little's law counts who thinks."""
    assert _certify_closed(_closed(8, 20, 0.1), ClosedPlan(8)).valid
    thinking = _certify_closed(_closed(8, 20, 0.1, think_ms=30), ClosedPlan(8, 30 * MS))
    assert thinking.valid, thinking.reasons
    assert thinking.figures["littles_law_error_ratio"] < 0.01


def test_a_closed_loop_whose_client_pauses_is_invalid() -> None:
    """A client that needs 5 ms for each answer of 20 ms understates the server by a fifth."""
    certificate = _certify_closed(_closed(8, 20, 5), ClosedPlan(8))
    assert _failed(certificate) == {"in_flight", "littles_law"}
    assert "on average 6.40 of 8 users were in flight or thinking: 20.0% off" in certificate.reasons[0].text


def test_a_closed_loop_that_ended_before_its_first_answer_is_invalid() -> None:
    """16 users, 16 requests, all sent at once: their latencies are right, but there is no throughput."""
    sent_ns = np.full(16, START)
    table = samples_table({"intended_ns": sent_ns, "done_ns": sent_ns + 12 * MS})
    certificate = certify(table, ClosedPlan(16), QUIET, measure_start_ns=START, measure_end_ns=START + 1)
    assert not certificate.valid
    assert any("no answer arrived while requests were being sent" in reason for reason in texts(certificate))


def test_a_window_that_cuts_half_of_the_requests_is_invalid() -> None:
    """Two answers per user and a third on its way: the throughput would be a third too low."""
    cycle = 100 * MS
    sent_ns = np.concatenate([START + k * cycle + np.zeros(8, np.int64) for k in range(3)])
    table = samples_table({"intended_ns": sent_ns, "done_ns": sent_ns + cycle})
    end = START + 2 * cycle + 99 * MS
    certificate = certify(table, ClosedPlan(8), QUIET, measure_start_ns=START, measure_end_ns=end)
    assert "littles_law" in _failed(certificate)


def test_more_requests_in_flight_than_users_are_invalid() -> None:
    """45 asked for, 74 observed: another load."""
    certificate = _certify_closed(_closed(10, 20, 0.1), ClosedPlan(8))
    assert "10 requests were in flight at once, 8 were asked for" in texts(certificate)


def test_nothing_measured_is_invalid() -> None:
    """No record at all ends in a clear verdict, open and closed."""
    empty = samples_table({"intended_ns": np.empty(0, np.int64)})
    for plan in (OpenPlan(np.empty(0, np.int64)), ClosedPlan(4)):
        certificate = certify(empty, plan, QUIET, measure_start_ns=0, measure_end_ns=S)
        assert texts(certificate) == ["0 requests were measured, at least 1 is needed"]


def test_a_certificate_without_the_senders_word_is_refused() -> None:
    """Without heartbeats a stop would go unseen; an empty window can't be judged either."""
    empty = samples_table({"intended_ns": np.empty(0, np.int64)})
    with pytest.raises(InputError, match="every sender"):
        certify(empty, ClosedPlan(1), [], measure_start_ns=0, measure_end_ns=S)
    with pytest.raises(InputError, match="window is empty"):
        certify(empty, ClosedPlan(1), QUIET, measure_start_ns=S, measure_end_ns=S)


def test_thresholds_are_data_and_stated_with_the_result() -> None:
    """A stricter limit turns the same run invalid, and the certificate as JSON says which limits it used."""
    planned = _poisson(50, 20)
    sent_ns = planned + MS // 2
    assert _open(planned, sent_ns).valid
    strict = _open(
        planned, sent_ns, thresholds=Thresholds(lateness_p50_ms=0.1, lateness_p50_latency_ratio=0.01)
    )
    assert _failed(strict) == {"lateness_p50"}
    assert Certificate.model_validate_json(strict.model_dump_json()) == strict
    assert strict.model_dump()["thresholds"]["lateness_p50_ms"] == 0.1
