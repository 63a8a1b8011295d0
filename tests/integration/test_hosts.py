"""Hosts in a real PerfDB: what their workers tell, who is refused, and what people see of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.client.api import InferBench
from inferbench_tasks.cluster import clock
from inferbench_tasks.cluster.device import Device
from inferbench_tasks.cluster.host import CacheUse
from inferbench_tasks.cluster.hosts import HOSTS, Hosts
from inferbench_tasks.cluster.links import LINKS, Links
from inferbench_tasks.cluster.node_rows import row
from inferbench_tasks.cluster.node_state import node_states
from inferbench_tasks.cluster.store import DEVICES, Cluster
from inferbench_tasks.cluster.token_end import DAY_S
from inferbench_tasks.cluster.versions import Versions, own
from inferbench_tasks.contracts.link import LinkAround, LinkClock, LinkEnd, MeasuredLink, RoundTrips
from inferbench_tasks.cores import usable_cores
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.workers.host_facts import facts
from inferbench_tasks.workers.host_report import HostReport

pytestmark = pytest.mark.integration
HOME = "a" * 32
USE = CacheUse(fetched_bytes=2_000_000_000, limit_bytes=50_000_000_000, free_bytes=9_000_000_000)


def serve(db: PerfDB, name: str = "h.cpu-1", home: str = HOME) -> Device:
    device = Device(device_id=name, device_type="cpu", name="c", host="h", home=home)
    Cluster(db).register(device)
    return device


def test_the_clock_of_this_host_against_itself(perfdb: PerfDB) -> None:
    """PerfDB's server is on this machine: the true offset is 0, and within the error that is told."""
    for _ in range(3):
        offset = clock.measured(perfdb)
        assert offset is not None
        assert abs(offset.ahead_s) <= offset.error_s
        assert offset.exchanges == clock.EXCHANGES and offset.round_trip_s > 0


def test_a_host_tells_of_itself(perfdb: PerfDB) -> None:
    """Facts at once; clock and cache as it works, and not again within the interval, nor under a job's load."""
    report = HostReport(Hosts(perfdb), HOME, facts(), lambda: USE)
    report.enter()
    serve(perfdb)
    report.tell(idle=False)
    (state,) = node_states(perfdb)
    assert (state.state, state.devices, state.inferbench) == ("serving", ["h.cpu-1"], own().inferbench)
    assert state.clock_ahead_s is not None and state.cache_fetched_bytes is None
    report.tell(idle=True)
    (again,) = node_states(perfdb)
    assert (again.cache_fetched_bytes, again.disk_free_bytes) == (2_000_000_000, 9_000_000_000)
    assert again.clock_ahead_s == state.clock_ahead_s
    # Another worker of the same host: what was measured a moment ago stays.
    HostReport(Hosts(perfdb), HOME, facts(), lambda: USE).tell(idle=False)
    (third,) = node_states(perfdb)
    assert third.clock_ahead_s == state.clock_ahead_s


def test_a_clock_a_day_ahead_is_known_before_a_job_is_given(
    perfdb: PerfDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the worker starts; another worker of the host says the same without measuring; set right, neither does."""
    ahead = clock.ClockOffset(ahead_s=86_400.0, error_s=0.001, round_trip_s=0.001, exchanges=1)
    monkeypatch.setattr(clock, "measured", lambda db: ahead)
    first, second = (HostReport(Hosts(perfdb), HOME, facts(), lambda: USE) for _ in range(2))
    first.enter()
    monkeypatch.setattr(clock, "measured", lambda db: pytest.fail("it was just measured"))
    second.enter()
    for report in (first, second):
        assert "86,400 s ahead of PerfDB's" in report.clock_fault and "set-ntp" in report.clock_fault
    Hosts(perfdb).tell_clock(HOME, ahead.model_copy(update={"ahead_s": 0.5}))
    second.enter()
    assert second.clock_fault == ""


def test_a_measurement_that_is_old_is_taken_again(perfdb: PerfDB) -> None:
    """By the age that PerfDB's clock tells."""
    HostReport(Hosts(perfdb), HOME, facts(), lambda: USE).enter()
    wrong = clock.ClockOffset(ahead_s=30.0, error_s=0.001, round_trip_s=0.001, exchanges=1)
    Hosts(perfdb).tell_clock(HOME, wrong)
    later = [{"$set": {"clock_at": {"$subtract": ["$clock_at", 45_000]}}}]
    perfdb.collection(HOSTS).update_one({"_id": HOME}, later)
    assert node_states(perfdb)[0].clock_ahead_s == 30.0
    assert 45 <= (node_states(perfdb)[0].clock_age_s or 0) < 60
    HostReport(Hosts(perfdb), HOME, facts(), lambda: USE).tell(idle=False)
    (state,) = node_states(perfdb)
    assert state.clock_ahead_s is not None and abs(state.clock_ahead_s) < 0.1


def test_a_token_that_ends_within_a_week_is_told_of(perfdb: PerfDB, caplog: pytest.LogCaptureFixture) -> None:
    """In the host's log once a day, and in its line; one that lasts longer is not, and who joined by none has none."""
    for days in (30, 6):
        ends = datetime.now(UTC) + timedelta(days=days, minutes=1)
        report = HostReport(Hosts(perfdb), HOME, facts(), lambda: USE, ends)
        report.enter()
        serve(perfdb)
        caplog.clear()
        for _ in range(3):
            report.tell(idle=False)
        (state,) = node_states(perfdb)
        assert state.token_left_s == pytest.approx(days * DAY_S, abs=120)
        told = [record for record in caplog.records if "token" in record.getMessage()]
        assert len(told) == (1 if days == 6 else 0)
        assert ("ends in 6 days" in (row(state)["reason"] or "")) == bool(told)
    report._warned_at -= DAY_S
    report.tell(idle=False)
    assert len([record for record in caplog.records if "ends in 6 days" in record.getMessage()]) == 2
    HostReport(Hosts(perfdb), HOME, facts(), lambda: USE).enter()
    (state,) = node_states(perfdb)
    assert state.token_left_s is None and state.token_warning is None


def link(ms: float, measured_at: datetime, far: str = "b" * 32) -> MeasuredLink:
    """From HOME to another host, with so long a round trip."""
    return MeasuredLink(
        near=LinkEnd(host="h", home=HOME, address="192.0.2.1"),
        far=LinkEnd(host=f"host-{far[0]}", home=far, address="192.0.2.2"),
        measured_at=measured_at.isoformat(),
        round_trip=RoundTrips.of([round(ms * 1e6)] * 20),
        up_mbit_s=90.0,
        down_mbit_s=80.0,
        clock=LinkClock(ahead_s=None, error_s=None, reason="not asked"),
    )


def test_a_host_s_line_has_the_newest_measurement_to_each_other_host(perfdb: PerfDB) -> None:
    """By when a load measured it, however late that is told; one that can't be read keeps nobody from the others."""
    HostReport(Hosts(perfdb), HOME, facts(), lambda: USE).enter()
    serve(perfdb)
    links, now = Links(perfdb), perfdb.now()
    early, late = link(1.0, now - timedelta(hours=3)), link(2.0, now - timedelta(hours=1))
    links.tell_around(LinkAround(before=early, after=late))
    links.tell_around(LinkAround(before=early, after=None, reason="it was lost"))
    links.tell_around(LinkAround(before=link(3.0, now + timedelta(hours=9), far="c" * 32), after=None))
    (state,) = node_states(perfdb)
    seen = {one.to: (one.round_trip_ms, round(one.age_s / 3600)) for one in state.measured_links}
    assert seen == {"host-b": (2.0, 1), "host-c": (3.0, 0)}
    assert "to host-b 192.0.2.2, 2.000 ms, 90 Mbit/s there, 80 back, 60 min ago" in (
        row(state)["measured"] or ""
    )
    links.tell(link(4.0, now))
    perfdb.collection(LINKS).update_one({"link.far.host": "host-c"}, {"$set": {"link.round_trip": 3}})
    (state,) = node_states(perfdb)
    assert [(one.to, one.round_trip_ms) for one in state.measured_links] == [("host-b", 4.0)]


def test_a_device_of_another_version_gets_no_job(perfdb: PerfDB) -> None:
    """Also one whose worker knows of no versions: the leader sees it in quarantine, with both numbers."""
    cluster, hosts = Cluster(perfdb), Hosts(perfdb)
    hosts.lead(own(), "b" * 32)
    serve(perfdb)
    device = cluster.get("h.cpu-1")
    assert device is not None and device.health == "ok"
    change = {"$set": {"versions.inferbench": "0.0.1"}}
    perfdb.collection(DEVICES).update_one({"_id": "h.cpu-1"}, change)
    hosts.enter(HOME, Versions(inferbench="0.0.1", python=own().python, protocol=own().protocol), facts())
    device = cluster.get("h.cpu-1")
    reason = f"InferBench 0.0.1 of the worker, {own().inferbench} of the leader"
    assert device is not None and (device.health, device.reason) == ("quarantined", reason)
    assert [(s.state, s.reason, s.leader) for s in node_states(perfdb)] == [("refused", reason, False)]
    perfdb.collection(DEVICES).update_one({"_id": "h.cpu-1"}, {"$unset": {"versions": ""}})
    device = cluster.get("h.cpu-1")
    assert device is not None and device.health == "quarantined" and own().inferbench in device.reason


def test_a_host_that_told_nothing_is_shown_with_its_devices(perfdb: PerfDB) -> None:
    """Of a worker of an earlier version: there, and nothing invented."""
    serve(perfdb, home="")
    perfdb.collection(DEVICES).update_one({"_id": "h.cpu-1"}, {"$unset": {"versions": "", "home": ""}})
    (state,) = node_states(perfdb)
    assert (state.host, state.devices, state.inferbench, state.memory_bytes) == ("h", ["h.cpu-1"], None, None)


def test_a_host_that_can_t_be_read_keeps_nobody_from_the_others(perfdb: PerfDB) -> None:
    """It is there with what is wrong and what mends it; its worker, which looks for it, writes it anew."""
    other = "b" * 32
    for home, name in ((HOME, "h.cpu-1"), (other, "o.cpu-1")):
        HostReport(Hosts(perfdb), home, facts(), lambda: USE).enter()
        serve(perfdb, name, home)
    hosts = perfdb.collection(HOSTS)
    hosts.update_one({"_id": other}, {"$set": {"facts.memory_bytes": "much", "clock_at": "now"}})
    assert [host.home for host in Hosts(perfdb).all()] == [HOME] and Hosts(perfdb).get(other) is None
    states = {state.home: state for state in node_states(perfdb)}
    assert states[HOME].reason == "" and states[HOME].memory_bytes
    assert (states[other].state, states[other].devices) == ("serving", ["o.cpu-1"])
    assert (
        "can't be read (facts.memory_bytes: " in states[other].reason and "much" not in states[other].reason
    )
    HostReport(Hosts(perfdb), other, facts(), lambda: USE).tell(idle=False)
    assert {host.home for host in Hosts(perfdb).all()} == {HOME, other}
    perfdb.collection("leader").update_one({"_id": "leader"}, {"$set": {"versions": 3}}, upsert=True)
    assert Hosts(perfdb).leader() is None and len(node_states(perfdb)) == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"inferbench": "99.0"}, f"InferBench {own().inferbench} of the worker, 99.0 of the leader"),
        ({"python": "2.7"}, f"Python {own().python} of the worker, 2.7 of the leader"),
        ({"protocol": 99}, f"protocol {own().protocol} of the worker, 99 of the leader"),
    ],
)
def test_a_worker_of_other_versions_is_refused_with_both(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, change: dict[str, object], told: str
) -> None:
    """Before it registers anything; the exit code is that of bad input."""
    pytest.importorskip("airflow.providers.celery")
    Hosts(perfdb).lead(own().model_copy(update=change), "b" * 32)
    core = min(os.sched_getaffinity(0))
    ended = subprocess.run(
        [sys.executable, "-m", "inferbench_tasks.cli.main", "worker", "--device", f"cpu:{core}"],
        env=os.environ | {
            "INFERBENCH_PERFDB_URI": perfdb_uri, settings.DATA_DIR: str(tmp_path),
            "AIRFLOW__CELERY__BROKER_URL": "redis://127.0.0.1:1/0",
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 2 and told in ended.stderr, ended.stderr
    assert Cluster(perfdb).devices() == [] and not list((tmp_path / "workers").iterdir())


def test_the_hosts_over_rest_and_on_the_page(perfdb: PerfDB, http: TestClient) -> None:
    """The same as the command's: columns with units, CSV, the text of a host as text."""
    Hosts(perfdb).lead(own(), HOME)
    known = facts().model_copy(update={"host": "<script>h"})
    report = HostReport(Hosts(perfdb), HOME, known, lambda: USE)
    report.enter()
    report.tell(idle=True)
    serve(perfdb)
    # starlette's client is not httpx's own class, and works alike.
    (item,) = InferBench("http://testserver", "ann", "x", http=http).nodes()  # type: ignore[arg-type]
    (state,) = node_states(perfdb)
    assert {**item, "clock_age_s": 0} == {**state.model_dump(mode="json"), "clock_age_s": 0}
    assert (item["leader"], item["cores_usable"]) == (True, usable_cores())
    page = http.get("/inferbench/cluster").text
    assert "&lt;script&gt;h (leader)" in page and "<script>h" not in page
    assert (
        f"InferBench {own().inferbench}, Python {own().python}, protocol" in page
        and "2.00 of 50 GB fetched, 9 GB of the disk free" in page
    )
    assert " ± " in page and row(state)["clock"] is not None
    assert (
        http.get("/inferbench/api/nodes?format=csv").text.splitlines()[0].startswith("host,home,leader,state")
    )


def test_nothing_is_shown_where_nothing_is(perfdb_uri: str, tmp_path: Path) -> None:
    """``inferbench nodes`` of a PerfDB that no worker has ever used."""
    program = shutil.which("inferbench", path=str(Path(sys.executable).parent))
    assert program is not None
    env = os.environ | {"INFERBENCH_PERFDB_URI": perfdb_uri, settings.DATA_DIR: str(tmp_path)}
    ended = subprocess.run(
        [program, "nodes"], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "") and "Nothing to show." in ended.stderr
