"""Records that are not those of the whole load are refused, and honest ones of any shape are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.load.forged import certificate_of, judged
from benchmarks.load.forgeries import forged
from benchmarks.load.honest import honest
from benchmarks.load.record_sets import RecordSet, S, closed_set, constant, lognormal, open_set
from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan
from inferbench_tasks.loadgen.prepare import promised
from tests.load_servers import endpoint, load_plan


@pytest.fixture(scope="module")
def loop() -> RecordSet:
    """A closed loop of 40 users by 20 senders, as its senders leave it."""
    return closed_set("loop", 40, lognormal(80), shards=20)


def _failed(records: RecordSet) -> set[str]:
    return {check.name for check in certificate_of(records).checks if not check.ok}


def _rows(records: RecordSet, mask: NDArray[np.bool_]) -> RecordSet:
    return records.of_rows("some", np.flatnonzero(mask))


def test_every_forged_record_set_is_caught() -> None:
    """15.8: At least 40, of open, closed and offline loads with one sender or more: each fails a check."""
    judgements = judged(forged())
    assert len(judgements) >= 40
    assert [judgement.name for judgement in judgements if not judgement.refused] == []


def test_no_honest_record_set_is_refused() -> None:
    """15.8: At least 40: bursts, slow servers, stalls, errors, timeouts, heavy tails, quotas, rows in no order."""
    judgements = judged(honest())
    assert len(judgements) >= 40
    assert [judgement for judgement in judgements if judgement.refused] == []


def test_a_closed_loop_without_its_slow_requests_is_invalid(loop: RecordSet) -> None:
    """15.8: The numbers have holes, and users ask who were never answered."""
    took = loop.columns["done_ns"] - loop.columns["sent_ns"]
    failed = _failed(_rows(loop, took < np.quantile(took, 0.98)))
    assert {"request_numbers", "chain"} <= failed


def test_a_closed_loop_without_its_last_part_is_invalid(loop: RecordSet) -> None:
    """15.8: Of 10 s the last 0.8 are missing: users who were answered did not ask again."""
    assert "chain" in _failed(_rows(loop, loop.columns["done_ns"] < loop.window_ns[1] - 8 * S // 10))


def test_a_sender_of_twenty_that_is_gone_is_missed(loop: RecordSet) -> None:
    """15.8: Its records alone, its account alone, or both: the plan says how many there were."""
    records = _rows(loop, loop.columns["shard"] != 19)
    assert "senders" in _failed(records)
    assert "senders" in _failed(replace(loop, usages=loop.usages[:-1]))
    assert "senders" in _failed(replace(records, usages=loop.usages[:-1]))
    assert _failed(loop) == set()


def test_records_that_were_never_sent_and_answered_are_invalid(loop: RecordSet) -> None:
    """15.8: ``sent_ns`` of -1 in every record left nothing to judge; it can't be, in open loops either."""
    for records in (loop, open_set("open", constant(200), lognormal(10))):
        unsent = records.changed("unsent", sent_ns=np.full(len(records.columns["status"]), -1))
        assert "impossible_records" in _failed(unsent)


def test_a_plan_says_what_its_records_must_be(tmp_path: Path) -> None:
    """Senders, numbers, first and last moment, quota and timeout: of a closed loop and of a schedule."""
    users = {"kind": "closed_loop", "concurrency": 6}
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals=users, shards=2, max_requests=50, duration_s=3.0)
    promise = promised(plan, 10 * S, 10 * S + plan.measure_start_ns, 10 * S + plan.measure_end_ns)
    assert isinstance(promise, ClosedPlan)
    assert (promise.shards, promise.start_ns, promise.max_requests) == (2, 10 * S, 50)
    assert promise.end_ns == 10 * S + plan.segments[-1].end_ns and promise.timeout_ns == plan.timeout_ns
    rate = {"kind": "constant", "rate_rps": 20}
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals=rate, shards=2, duration_s=2.0, warmup_s=1.0)
    promise = promised(plan, 10 * S, 10 * S + plan.measure_start_ns, 10 * S + plan.measure_end_ns)
    assert isinstance(promise, OpenPlan) and promise.request_id is not None
    warmup = plan.segments[-1].first_request_id
    assert promise.request_id.tolist() == list(range(warmup, warmup + 40))
    assert promise.first_request_id == warmup and promise.shards == 2


def test_an_answer_that_is_no_number_is_no_record(loop: RecordSet) -> None:
    """A NaN becomes the smallest integer on its way into a column of integers."""
    done = np.asarray(loop.columns["done_ns"]).copy()
    done[500] = np.iinfo(np.int64).min
    assert "impossible_records" in _failed(loop.changed("NaN", done_ns=done))


def test_made_up_sets_are_as_a_sender_leaves_them(loop: RecordSet) -> None:
    """The corpus would prove nothing if its honest sets broke a rule that real senders keep."""
    intended, done = np.asarray(loop.columns["intended_ns"]), np.asarray(loop.columns["done_ns"])
    later = intended[intended > intended.min()]
    assert np.isin(later, done).all()
