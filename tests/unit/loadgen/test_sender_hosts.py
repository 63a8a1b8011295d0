"""Several hosts of one load: how it is cut, how their records come onto one clock, and what is held against a host."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.ceiling import peak_rate_rps
from inferbench_tasks.loadgen.controller import ends_early
from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan, ShardUsage
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import senders_here
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.loadgen.sender_hosts import (
    SenderHost,
    host_checks,
    part_of,
    put_back,
    schedule_digest,
    too_far,
    usage_of,
)
from inferbench_tasks.loadgen.spool import Recorder, Spool
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.submission.schema import LoadSpec
from tests.load_servers import endpoint, load_plan
from tests.samples import samples_table

MS, S = 1_000_000, 1_000_000_000
FAST = {"kind": "poisson", "rate_rps": 500}
TWO = (SenderHost("one", range(1)), SenderHost("two", range(1, 2)))


def plan(folder: Path, arrivals: dict[str, Any] | None = None, **more: Any) -> LoadPlan:
    folder.mkdir(exist_ok=True)
    return load_plan(folder, endpoint("http", 1), arrivals=arrivals or FAST, **{"shards": 4, **more})


def test_every_request_is_one_host_s(tmp_path: Path) -> None:
    """And all senders are; so it is with users, connections and requests that are allowed."""
    whole = plan(tmp_path, duration_s=10.0)
    parts = [part_of(whole, number, 2) for number in range(2)]
    assert [[*part.own] for part in parts] == [[0, 2], [1, 3]] and [*whole.own] == [0, 1, 2, 3]
    path = whole.segments[-1].offsets_path
    assert path is not None
    numbers = np.arange(len(np.load(path)))
    sent = [np.concatenate([numbers[shard :: part.shards] for shard in part.own]) for part in parts]
    assert np.array_equal(np.sort(np.concatenate(sent)), numbers)
    for total in (7, 64):
        assert sum(part.share(total, shard) for part in parts for shard in part.own) == total
    peak = peak_rate_rps(whole)
    assert peak is not None and [peak_rate_rps(part) for part in parts] == [peak / 2, peak / 2]


def test_what_ends_a_load_is_judged_by_the_first_host(tmp_path: Path) -> None:
    """Of all that all hosts sent; none of the others ends its part for what it alone sees."""
    whole = plan(tmp_path, max_error_ratio=0.2).model_copy(update={"max_backlog": 10})
    judged = [(part.max_error_ratio, part.max_backlog) for part in (part_of(whole, n, 2) for n in range(2))]
    assert judged == [(0.2, 10), (1.0, None)]
    so_far = Snapshot(done=100, errors=20, rate_rps=1.0, p50_ms=None, p99_ms=None, in_flight=10)
    assert ends_early(whole, so_far) is None
    assert (ends_early(whole, replace(so_far, errors=21)) or "").startswith("21 of 100 requests had failed")
    assert (ends_early(whole, replace(so_far, in_flight=11)) or "").startswith("saturated: 11 requests")


def test_three_hosts_share_what_three_does_not_divide(tmp_path: Path) -> None:
    """Of 10 requests 4, 3 and 3, by turns; of 20 users 7, 7 and 6, of 7 with two senders each 3, 2 and 2; of a rate a
    third each."""
    whole = plan(
        tmp_path / "one", {"kind": "constant", "rate_rps": 10}, duration_s=1.0, warmup_s=0.0, shards=3
    )
    parts = [part_of(whole, number, 3) for number in range(3)]
    path = whole.segments[-1].offsets_path
    assert path is not None and len(np.load(path)) == 10
    assert [[*range(10)][part.first_shard :: whole.shards] for part in parts] == [
        [0, 3, 6, 9],
        [1, 4, 7],
        [2, 5, 8],
    ]
    assert [part.share(20, shard) for part in parts for shard in part.own] == [7, 7, 6]
    peak = peak_rate_rps(whole)
    assert peak is not None
    assert [peak_rate_rps(part) for part in parts] == [pytest.approx(peak / 3)] * 3
    doubled = [part_of(plan(tmp_path / "two", shards=6), number, 3) for number in range(3)]
    assert [sum(part.share(7, shard) for shard in part.own) for part in doubled] == [3, 2, 2]
    assert [[*part.own] for part in doubled] == [[0, 3], [1, 4], [2, 5]]


def test_what_senders_have_more_of_is_not_one_host_s(tmp_path: Path) -> None:
    """Of 16 users, or connections, and four senders on each of three hosts the first one has no more than 6."""
    whole = plan(tmp_path, {"kind": "closed_loop", "concurrency": 16}, shards=12)
    parts = [part_of(whole, number, 3) for number in range(3)]
    assert [sum(part.share(16, shard) for shard in part.own) for part in parts] == [6, 5, 5]
    assert sorted(shard for part in parts for shard in part.own) == [*range(12)]
    assert all(len(part.own) == part.senders == 4 for part in parts)


@pytest.mark.parametrize(("users", "shards", "each"), [(7, "auto", 1), (9, 9, 3), (4, 9, 1), (3, 3, 1)])
def test_each_of_three_hosts_has_as_many_senders(
    users: int, shards: int | str, each: int, tmp_path: Path
) -> None:
    """No more in all than there are users, and one at least; every user is asked for by one of them."""
    closed = {"kind": "closed_loop", "concurrency": users}
    asked = LoadSpec.model_validate(
        {"arrivals": closed, "shards": shards, "from": "other_host", "client_hosts": 3}
    )
    assert senders_here(asked, tmp_path) == each
    whole = plan(tmp_path / "of", closed, shards=3 * each)
    shares = [
        part.share(users, shard) for part in (part_of(whole, n, 3) for n in range(3)) for shard in part.own
    ]
    assert sum(shares) == users and min(shares) >= 1 and max(shares) - min(shares) <= 1


def test_more_senders_than_users_leave_no_user_to_nobody(tmp_path: Path) -> None:
    """Of 21 users a load has 21 senders at most: 22 that were asked for are 10 a host, and all users are asked for."""
    users = {"kind": "closed_loop", "concurrency": 21}
    asked = LoadSpec.model_validate(
        {"arrivals": users, "shards": 22, "from": "other_host", "client_hosts": 2}
    )
    each = senders_here(asked, tmp_path)
    assert each == 10
    whole = plan(tmp_path, users, shards=2 * each)
    parts = [part_of(whole, number, 2) for number in range(2)]
    assert sum(part.share(21, shard) for part in parts for shard in part.own) == 21
    with pytest.raises(LoadError, match="21 senders can't be shared by 2 hosts"):
        part_of(plan(tmp_path, users, shards=22), 0, 2)


def test_hosts_agree_on_a_schedule_by_its_digest(tmp_path: Path) -> None:
    """The same on each whatever its folders, and whichever part is its own; another with another seed, rate or number
    of senders."""
    first, other = plan(tmp_path / "a"), plan(tmp_path / "b")
    assert schedule_digest(first) == schedule_digest(other) == schedule_digest(part_of(other, 1, 2))
    assert first.segments[-1].offsets_path != other.segments[-1].offsets_path
    changed = [
        plan(tmp_path / "c", seed=2), plan(tmp_path / "d", shards=2), plan(tmp_path / "e", timeout_ms=2.0),
        plan(tmp_path / "f", {**FAST, "rate_rps": 700}),
        plan(tmp_path / "g", {"kind": "closed_loop", "concurrency": 4}),
    ]  # fmt: skip
    assert len({schedule_digest(one) for one in (first, *changed)}) == len(changed) + 1


def test_moments_come_onto_the_first_host_s_clock_to_the_nanosecond(tmp_path: Path) -> None:
    """Those that happened; of what did not happen nothing is made."""
    path, ahead = tmp_path / "1.spool", 1000 * S + 7
    with Recorder(path, 1) as recorder:
        recorder.append(1, 1, ahead + 5, ahead + 6, ahead + 8, ahead + 9, 0, 1, 2, 3, 1)
        recorder.append(3, 1, ahead + 10, -1, -1, ahead + 10, recorder.status_code("dropped"), 0, 0, 0, 1)
    put_back(path, ahead)
    rows = Spool(path).read()
    names = ("intended_ns", "sent_ns", "first_byte_ns", "done_ns")
    assert [[int(row[name]) for name in names] for row in rows] == [[5, 6, 8, 9], [10, -1, -1, 10]]
    assert [int(row["request_id"]) for row in rows] == [1, 3]
    empty = tmp_path / "2.spool"
    Recorder(empty, 2).close()
    put_back(empty, ahead)
    assert Spool(empty).rows == 0


def test_records_of_three_hosts_are_one_load_in_the_order_of_its_schedule(tmp_path: Path) -> None:
    """Nine requests 10 ns apart, by turns, recorded by clocks of which two lie 1,000 s ahead and 3 s behind."""
    spools = []
    for shard, ahead in enumerate((0, 1000 * S + 7, -3 * S - 1)):
        path = tmp_path / f"shard-{shard}.spool"
        with Recorder(path, shard) as recorder:
            for number in range(shard, 9, 3):
                at = ahead + 100 * S + 10 * number
                recorder.append(number, 1, at, at + 1, at + 3, at + 5, 0, 1, 2, 3, 1)
        put_back(path, ahead)
        spools.append(path)
    assert merge(spools, tmp_path / "samples.parquet", measure_window_ns=(0, 200 * S)) == 9
    table = read_samples(tmp_path / "samples.parquet")
    columns = {
        name: np.asarray(table[name]).tolist() for name in ("request_id", "intended_ns", "done_ns", "shard")
    }
    assert columns["request_id"] == [*range(9)] and columns["shard"] == [0, 1, 2] * 3
    assert columns["intended_ns"] == [100 * S + 10 * number for number in range(9)]
    assert columns["done_ns"] == [100 * S + 10 * number + 5 for number in range(9)]


def usage(shard: int, stall_ms: int = 2) -> ShardUsage:
    stall = (1000 * S, 1000 * S + stall_ms * MS)
    return ShardUsage(
        shard=shard,
        cpu_s=1.0,
        wall_s=10.0,
        max_stall_ns=stall_ms * MS,
        stalls_ns=(stall,),
        stalled_ns=stall_ms * MS,
    )


def test_what_a_sender_used_is_told_with_its_host() -> None:
    """Its stalls on the first host's clock; the sentence of a check names the host."""
    moved = usage_of(usage(1), "two", 900 * S)
    assert moved.stalls_ns == ((100 * S, 100 * S + 2 * MS),) and moved.where == " on two"
    assert usage(1).where == ""


def judged(late_ms: NDArray[np.float64], hosts: tuple[SenderHost, ...] = TWO, **more: Any) -> dict[str, Any]:
    """Of as many requests each 10 ms, in turns of all hosts, answered in 5 ms."""
    intended = np.arange(len(late_ms)) * 10 * MS
    sent = intended + (late_ms * MS).astype(np.int64)
    table = samples_table(
        {
            "intended_ns": intended,
            "sent_ns": sent,
            "done_ns": sent + 5 * MS,
            "shard": np.arange(len(late_ms)) % len(hosts),
        }
    )
    promise = more.get("promise", OpenPlan(intended, shards=2))
    usages = [usage_of(usage(shard), host.name, 0) for shard, host in enumerate(hosts)]
    checks, figures = host_checks(table, promise, usages, hosts, (0, 10 * S), Thresholds())
    return {"figures": figures, **{check.name: check for check in checks}}


def test_a_host_that_is_late_with_its_part_is_named() -> None:
    """Though of the whole load too few requests were late: 1.5% of its own are 0.75% of all."""
    late = np.full(1000, 0.1)
    assert all(check.ok for name, check in judged(late).items() if name != "figures")
    late[1:31:4] = 40.0
    found = judged(late)
    assert found["host_lateness_p50"].ok and not found["host_lateness_p99"].ok
    assert found["host_lateness_p99"].reason.startswith(
        "1% of the requests of two left more than 40.00 ms late"
    )
    assert np.quantile(late, 0.99, method="inverted_cdf") < 1
    assert [one["requests"] for one in found["figures"]] == [500, 500]
    assert found["figures"][0]["lateness_p99_ms"] == pytest.approx(0.1)


def test_how_far_apart_the_hosts_began_is_held_to_what_gaps_may_differ_by() -> None:
    """Named, with both numbers; in a closed loop too, where there is no schedule to be late for."""
    late = np.full(1000, 0.1)
    for apart_ms, ok in ((4.9, True), (5.1, False)):
        hosts = (TWO[0], SenderHost("two", range(1, 2), apart_ms))
        for promise in (OpenPlan(np.arange(1000) * 10 * MS, shards=2), ClosedPlan(2, shards=2)):
            check = judged(late, hosts, promise=promise)["hosts_apart"]
            assert check.ok == ok and check.value == apart_ms
            assert f"two sent its part of the load up to {apart_ms:.2f} ms (at most 5.00 ms)" in check.reason
    closed = judged(late, promise=ClosedPlan(2, shards=2))
    assert closed.keys() == {"figures", "hosts_apart"}


def test_clocks_that_are_too_far_for_a_fast_server_are_told_before_the_load() -> None:
    """From which median on it can be valid: a tenth of it is what the two worst are wrong by; of near ones nothing."""
    apart = {"one": 0.0, "two": 10.2, "three": 2.0}
    one, two, three = (SenderHost(name, range(1), ms) for name, ms in apart.items())
    assert (
        too_far((one, three), Thresholds())
        == ""
        == too_far((one, SenderHost("x", range(1), 5.0)), Thresholds())
    )
    assert "way to two takes so long that clocks are known to 10.2 ms" in too_far((one, two), Thresholds())
    assert "below a median of 102 ms" in too_far((one, two), Thresholds())
    assert "two and three" in (told := too_far((one, two, three), Thresholds())) and "of 122 ms" in told


def test_two_further_hosts_may_lie_apart_by_what_both_are_wrong(tmp_path: Path) -> None:
    """One forwards, one backwards: 3 and 1.9 ms are 4.9 ms, beside which the first host's own clock is none; 2.1 ms
    are too many, though neither host alone has 5 ms."""
    names = ("one", "two", "three")
    for third_ms, ok in ((1.9, True), (2.1, False)):
        hosts = tuple(
            SenderHost(name, range(shard, shard + 1), apart)
            for name, shard, apart in zip(names, range(3), (0.0, 3.0, third_ms), strict=True)
        )
        check = judged(np.full(1000, 0.1), hosts, promise=OpenPlan(np.arange(1000) * 10 * MS, shards=3))[
            "hosts_apart"
        ]
        assert check.ok == ok and check.value == pytest.approx(3.0 + third_ms)
        words = f"two and three sent their parts of the load up to {3 + third_ms:.2f} ms (at most 5.00 ms) nearer to"
        assert check.reason.startswith(words)


def test_the_late_one_of_three_hosts_is_named() -> None:
    """With its third of the requests alone."""
    late = np.full(999, 0.1)
    late[2::60] = 40.0  # 17 of 333 of the third host
    hosts = tuple(
        SenderHost(name, range(shard, shard + 1)) for shard, name in enumerate(("one", "two", "three"))
    )
    found = judged(late, hosts, promise=OpenPlan(np.arange(999) * 10 * MS, shards=3))
    assert [one["requests"] for one in found["figures"]] == [333, 333, 333]
    assert [one["lateness_p99_ms"] for one in found["figures"]] == pytest.approx([0.1, 0.1, 40.0])
    assert not found["host_lateness_p99"].ok
    assert found["host_lateness_p99"].reason.startswith(
        "1% of the requests of three left more than 40.00 ms late"
    )


def test_a_host_without_a_record_has_no_lateness() -> None:
    """That it is missing is held against the load by the check of the senders."""
    hosts = (TWO[0], SenderHost("gone", range(2, 3)))
    found = judged(np.full(1000, 0.1), hosts)
    gone = found["figures"][1]
    assert gone["requests"] == 0 and gone["lateness_p50_ms"] is None and gone["max_stall_ms"] is None
    assert found["host_lateness_p50"].reason.startswith("half of the requests of one ")
