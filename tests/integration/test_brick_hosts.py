"""Times of hosts of one setting: each at its own host's level, none passed off as another's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.places import Place, hosts_of
from inferbench_tasks.brick_jobs.queries import settings_of
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.brick_jobs.stages import decompose
from inferbench_tasks.brick_jobs.store import LEVELS, REFERENCES, PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.session import Session, Timed
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.machines import drifts

pytestmark = pytest.mark.integration
SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
AT = datetime(2026, 1, 1, tzinfo=UTC)
A, B = Place("a" * 32, "host-a"), Place("b" * 32, "host-b", leads=False)


def session(dense_ns: float, brick_ms: float) -> Session:
    """One whose reference and brick took so long."""
    times = {"warm": [brick_ms * 1e6] * 3}
    return Session(True, 3, 3, [1.0], {"dense": dense_ns}, {"k": Timed(times, {})}, {"dense": dense_ns})


def result(place: Place, ms: float = 1.0, at: datetime = AT, runs: int = 100) -> Result:
    return Result(
        identity="k", key="k", operators=("Conv",), setting=SETTING, session=f"{place.host}/{ms}",
        method=Method(runs=runs), rounds_ns={"warm": (ms * 1e6,) * 3}, raw_ns={}, measured_at=at, home=place.home,
        host=place.host,
    )  # fmt: skip


def of(perfdb: PerfDB, place: Place | None) -> PerfDBResults:
    return PerfDBResults(perfdb, SETTING, place=place)


def warm_ms(found: Session) -> float:
    return found.timed["k"].rounds_ns["warm"][0] / 1e6


def test_a_session_is_scaled_to_its_own_hosts_level(perfdb: PerfDB) -> None:
    """A's references take 100 ns, B's 80, and a brick that waits for memory 10 ms on A and 20 on B: it is 20 at B's
    level, where A's would have it be 20 / 0.8 = 25, which it takes nowhere. B's next session at 88 ns is scaled by
    1.1."""
    assert warm_ms(of(perfdb, A).at_base(session(100.0, 10.0), "a/1")) == pytest.approx(10)
    assert warm_ms(of(perfdb, B).at_base(session(80.0, 20.0), "b/1")) == pytest.approx(20)
    assert warm_ms(of(perfdb, B).at_base(session(88.0, 22.0), "b/2")) == pytest.approx(20)
    assert of(perfdb, A).base_ns() == {"dense": 100.0} and of(perfdb, B).base_ns() == {"dense": 80.0}
    kept = {one["session"]: (one["home"], one["host"]) for one in perfdb.collection(REFERENCES).find()}
    assert kept == {"a/1": (A.home, "host-a"), "b/1": (B.home, "host-b"), "b/2": (B.home, "host-b")}


def test_two_hosts_levels_are_of_one_setting(perfdb: PerfDB) -> None:
    """Lists of settings have it once; how fast machines were has a row for each host, over its own first session."""
    of(perfdb, A).at_base(session(100.0, 10.0), "a/1", AT)
    of(perfdb, B).at_base(session(80.0, 20.0), "b/1", AT)
    of(perfdb, B).at_base(session(88.0, 22.0), "b/2", AT + timedelta(days=1))
    assert len(settings_of(perfdb, "p")) == 1 and perfdb.collection(LEVELS).count_documents({}) == 2
    found = {row["host"]: (row["sessions"], row["level_ratio"]) for row in drifts(perfdb)}
    assert found == {"host-a": (1, 1.0), "host-b": (2, pytest.approx(1.1))}


def test_a_level_of_before_hosts_were_kept_is_the_leaders(perfdb: PerfDB) -> None:
    """It goes on at that level, with its sessions in one row; a host that joined begins a level of its own."""
    of(perfdb, None).at_base(session(100.0, 10.0), "old", AT)
    assert of(perfdb, B).base_ns() is None
    assert warm_ms(of(perfdb, A).at_base(session(200.0, 20.0), "a/1", AT + timedelta(days=1))) == 10
    assert warm_ms(of(perfdb, B).at_base(session(80.0, 20.0), "b/1", AT)) == 20
    assert sorted((row["sessions"], row["level_ratio"]) for row in drifts(perfdb)) == [(1, 1.0), (2, 2.0)]


def test_a_hosts_own_times_come_before_newer_ones_of_others(perfdb: PerfDB) -> None:
    """Each says whose it is; without its own a host takes another's; who asks for no host gets the leader's."""
    of(perfdb, B).put(result(B, 20.0, AT + timedelta(days=1)))
    assert of(perfdb, A).get_many(["k"])["k"].host == "host-b"
    of(perfdb, A).put(result(A, 10.0, AT))
    Hosts(perfdb).lead(own(), A.home)
    for place, host, ms in ((A, "host-a", 10.0), (B, "host-b", 20.0), (None, "host-a", 10.0)):
        store = of(perfdb, place)
        one = store.get("k")
        assert one is not None and one == store.get_many(["k"])["k"]
        assert (one.host, one.rounds_ns["warm"][0]) == (host, ms * 1e6)


def test_a_time_that_may_be_used_again_goes_before_an_own_one_that_may_not(perfdb: PerfDB) -> None:
    """Too old, or of too few runs: another host's is taken then, and read too. Of two that may be used the own one is,
    however old, and of two that may not; what nobody's time covers is measured."""
    of(perfdb, A).put(result(A, 10.0, AT, runs=50))
    of(perfdb, B).put(result(B, 20.0, AT + timedelta(days=5)))
    late = AT + timedelta(days=1)
    cases = (
        (Wanted(method=Method()), True, B),
        (Wanted(method=Method(runs=50), oldest=late), True, B),
        (Wanted(method=Method(runs=50), oldest=AT), True, A),
        (Wanted(method=Method(runs=200)), False, A),
        (Wanted(method=Method(), oldest=AT + timedelta(days=9)), False, A),
    )
    for wanted, again, whose in cases:
        store = of(perfdb, A)
        assert store.usable(wanted) == ({"k"} if again else set()), wanted
        one = store.get("k", wanted)
        assert one is not None and one.home == store.get_many(["k"], wanted)["k"].home == whose.home, wanted
    assert of(perfdb, A).get_many(["k"])["k"].home == A.home
    assert of(perfdb, B).usable(Wanted(method=Method(), oldest=late)) == {"k"}


def test_a_leader_that_measures_no_more_has_its_bricks_measured_once(perfdb: PerfDB) -> None:
    """Its own time is too old; what a worker measured for it is used by the next submission, until that is too old."""
    now = datetime.now(UTC)
    leader = of(perfdb, A)
    leader.put(result(A, 10.0, now - timedelta(days=60)))
    asked = decompose.wanted(leader, MeasureSpec(max_age_days=30))
    assert asked is not None and leader.usable(asked) == set()
    of(perfdb, B).put(result(B, 20.0, now - timedelta(days=2)))
    assert leader.usable(asked) == {"k"} and leader.get_many(["k"], asked)["k"].host == "host-b"
    asked = decompose.wanted(leader, MeasureSpec(max_age_days=1))
    assert asked is not None and leader.usable(asked) == set()


def test_times_of_other_hosts_are_named() -> None:
    """By host; nothing is said where all are the own host's, or of one host of before hosts were kept."""
    old = result(Place())
    assert (
        hosts_of([result(A), old], A) == []
        and hosts_of([old], None) == []
        and hosts_of([result(A)], None) == []
    )
    assert hosts_of([result(B)], A) == ["host-b"]
    assert (
        hosts_of([result(A), result(B)], A) == hosts_of([result(A), result(B)], None) == ["host-a", "host-b"]
    )
    assert hosts_of([old], B) == ["the system's own host"]
