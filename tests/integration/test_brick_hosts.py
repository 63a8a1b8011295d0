"""Times of hosts of one setting: each at its own host's level, none passed off as another's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from inferbench_tasks.brick_jobs import machines, queries
from inferbench_tasks.brick_jobs.chosen import Wanted
from inferbench_tasks.brick_jobs.places import UNKNOWN, Place, hosts_of
from inferbench_tasks.brick_jobs.queries import settings_of
from inferbench_tasks.brick_jobs.spec import MeasureSpec
from inferbench_tasks.brick_jobs.stages import decompose
from inferbench_tasks.brick_jobs.store import LEVELS, REFERENCES, RESULTS, PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.measure.session import Session, Timed
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.machines import drifts

pytestmark = pytest.mark.integration
SETTING = Setting(processor="p", instruction_set="x", cores=1, threads=1, runtime="onnxruntime 1")
AT = datetime(2026, 1, 1, tzinfo=UTC)
A, B = Place("a" * 32, "host-a"), Place("b" * 32, "host-b")
#: Another data directory of A's machine.
A2 = Place("2" * 32, "host-a")


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


def test_a_level_of_before_hosts_were_kept_is_its_machines_where_that_is_known(perfdb: PerfDB) -> None:
    """PerfDB is A's data directory's own, and nobody else was known: A goes on at that level, with its sessions in one
    row and its old times its own; a host that joins begins a level of its own."""
    of(perfdb, None).at_base(session(100.0, 10.0), "old", AT)
    of(perfdb, None).put(result(Place(), 10.0))
    machines.tell(perfdb, A.home, A.host, "boot-1", ours=True)
    assert of(perfdb, B).base_ns() is None
    assert warm_ms(of(perfdb, A).at_base(session(200.0, 20.0), "a/1", AT + timedelta(days=1))) == 10
    assert warm_ms(of(perfdb, B).at_base(session(80.0, 20.0), "b/1", AT)) == 20
    found = {row["host"]: (row["sessions"], row["level_ratio"]) for row in drifts(perfdb)}
    assert found == {"host-b": (1, 1.0), "host-a": (2, 2.0)}
    of(perfdb, B).put(result(B, 30.0, AT + timedelta(days=1)))
    old = of(perfdb, A).get_many(["k"])["k"]
    assert (old.host, old.rounds_ns["warm"][0]) == ("host-a", 10e6) and hosts_of([old], A) == []


@pytest.mark.parametrize("why", ["another's database", "a leader before", "a worker", "a level", "a suite"])
def test_who_comes_later_inherits_no_level_that_names_no_host(perfdb: PerfDB, why: str) -> None:
    """Where it is not known to be of this machine: A begins its own, what follows from old times says that their host
    is not known, and they are no better than another's."""
    store = of(perfdb, None)
    store.at_base(session(100.0, 10.0), "suite-1/0" if why == "a suite" else "old", AT)
    store.put(result(Place(), 10.0))
    if why == "a leader before":
        Hosts(perfdb).lead(own(), B.home)
    if why == "a worker":
        Cluster(perfdb).register(
            Device(device_id="w", device_type="cpu", name="p", host="host-b", home=B.home)
        )
    if why == "a level":
        of(perfdb, B).set_base_ns({"dense": 80.0})
    machines.tell(perfdb, A.home, A.host, "boot-1", ours=why != "another's database")
    Hosts(perfdb).lead(own(), A.home)
    assert of(perfdb, A).base_ns() is None
    assert warm_ms(of(perfdb, A).at_base(session(200.0, 20.0), "a/1", AT)) == 20
    one = of(perfdb, A).get_many(["k"])["k"]
    assert (one.home, hosts_of([one], A)) == ("", [UNKNOWN])
    of(perfdb, B).put(result(B, 30.0, AT + timedelta(days=1)))
    assert of(perfdb, A).get_many(["k"])["k"].host == "host-b"
    sessions = {row["host"]: row["sessions"] for row in drifts(perfdb)}
    assert sessions[None] == sessions["host-a"] == 1


def test_what_is_known_once_stays_known(perfdb: PerfDB) -> None:
    """A level that was A's stays A's when a worker joins, and it is nobody's else: not even of whoever leads next."""
    of(perfdb, None).at_base(session(100.0, 10.0), "old", AT)
    machines.tell(perfdb, A.home, A.host, "boot-1", ours=True)
    Hosts(perfdb).lead(own(), B.home)
    for boot in ("boot-1", "boot-2"):
        machines.tell(perfdb, A.home, A.host, boot, ours=True)
    machines.tell(perfdb, B.home, B.host, "boot-b", ours=True)
    assert of(perfdb, A).base_ns() == {"dense": 100.0} and of(perfdb, B).base_ns() is None


def test_data_directories_of_one_machine_are_one_host(perfdb: PerfDB) -> None:
    """By their kernel, also once the machine was started again: one level, the machine's times its own, no other host
    named, one row of how fast it was."""
    for place, boot in ((A, "boot-1"), (A2, "boot-1"), (A, "boot-2"), (B, "boot-b")):
        machines.tell(perfdb, place.home, place.host, boot, ours=False)
    assert warm_ms(of(perfdb, A).at_base(session(100.0, 10.0), "a/1", AT)) == 10
    assert warm_ms(of(perfdb, A2).at_base(session(200.0, 20.0), "a2/1", AT + timedelta(days=1))) == 10
    assert warm_ms(of(perfdb, B).at_base(session(80.0, 20.0), "b/1", AT)) == 20
    assert perfdb.collection(LEVELS).count_documents({}) == 2
    of(perfdb, A2).put(result(A2, 11.0, AT))
    of(perfdb, B).put(result(B, 20.0, AT + timedelta(days=5)))
    one = of(perfdb, A).get_many(["k"])["k"]
    assert one.home == A2.home and one.rounds_ns["warm"][0] == 11e6
    homes = machines.read(perfdb).homes(A.home)
    assert homes == {A.home, A2.home} and hosts_of([one], Place(A.home, homes=homes)) == []
    found = {row["host"]: (row["sessions"], row["level_ratio"]) for row in drifts(perfdb)}
    assert found == {"host-a": (2, 2.0), "host-b": (1, 1.0)}
    Hosts(perfdb).lead(own(), A2.home)
    assert of(perfdb, None).get_many(["k"])["k"].home == A2.home


def test_two_levels_of_one_machine_are_one_once_that_is_known(perfdb: PerfDB) -> None:
    """Each data directory began with its own, of 100 and of 200 ns, and timed a brick at 10 and 20 ms: it is 10 ms at
    the first of the two, whichever told it, and stays so when it is read after the next session."""
    for place, dense, ms, day in ((A, 100.0, 10.0, 0), (A2, 200.0, 20.0, 1)):
        store = of(perfdb, place)
        store.at_base(session(dense, ms), f"{place.home}/1", AT + timedelta(days=day))
        store.put(result(place, ms, AT + timedelta(days=day)))
    assert of(perfdb, A2).get_many(["k"])["k"].rounds_ns["warm"][0] == 20e6
    for place in (A, A2):
        machines.tell(perfdb, place.home, place.host, "boot-1", ours=False)
    for place in (A, A2):
        one = of(perfdb, place).get("k")
        assert one is not None and one.home == A2.home and one.rounds_ns["warm"][0] == pytest.approx(10e6)
    store = of(perfdb, A2)
    assert store.base_ns() == {"dense": 100.0}
    store.put(result(A2, 12.0, AT + timedelta(days=2)))
    assert of(perfdb, A).get_many(["k"])["k"].rounds_ns["warm"][0] == 12e6


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
    """By host; nothing is said where all are the own host's, or of one host and nobody can say whose."""
    old = result(Place())
    assert hosts_of([result(A)], A) == hosts_of([old], None) == hosts_of([result(A)], None) == []
    assert hosts_of([result(B)], A) == ["host-b"]
    both = [result(A), result(B)]
    assert hosts_of(both, A) == hosts_of(both, None) == ["host-a", "host-b"]
    assert hosts_of([old], B) == [UNKNOWN]
    assert hosts_of([old, result(A)], A) == hosts_of([old, result(A)], None) == [UNKNOWN, "host-a"]


def test_lists_say_the_host_only_where_a_device_has_times_of_several(perfdb: PerfDB) -> None:
    """Of one host, and of two data directories of its machine, there is no such column; of two hosts, and of one beside
    times that name none, each time says whose it is, behind its device."""
    key = "ab" * 32

    def put(place: Place, day: int) -> None:
        store = of(perfdb, place)
        store.set_base_ns({"dense": 100.0})
        store.put(result(place, 10.0 + day, AT + timedelta(days=day)).model_copy(update={"key": key}))

    def hosts() -> list[list[str]]:
        listed, shown = queries.listed(perfdb), queries.shown(perfdb, key)["results"]
        assert ("host" in queries.columns(listed)) == any("host" in row for row in listed)
        assert ("host" in queries.columns(shown)) == any("host" in row for row in shown)
        [device] = queries.devices(perfdb)
        each = [[row["host"] for row in rows if "host" in row] for rows in (listed, shown)]
        return [*each, device.get("hosts", [])]

    for place in (A, A2):
        machines.tell(perfdb, place.home, place.host, "boot-1", ours=False)
    put(A, 0)
    put(A2, 1)
    assert hosts() == [[], [], []]
    put(B, 2)
    assert hosts() == [["host-b", "host-a", "host-a"]] * 2 + [["host-a", "host-b"]]
    row = queries.listed(perfdb)[0]
    assert list(row)[list(row).index("device") + 1] == "host" == queries.columns([row])[5]
    for name in (LEVELS, RESULTS):
        perfdb.collection(name).update_many({"home": B.home}, {"$set": {"home": "", "host": ""}})
    assert hosts() == [[UNKNOWN, "host-a", "host-a"]] * 2 + [[UNKNOWN, "host-a"]]
