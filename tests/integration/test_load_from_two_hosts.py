"""``load.client_hosts: 2`` between three hosts: server and second client in namespaces of their own, the first here.

Each has an address, a data directory and a clock of its own, 1,000 s apart, so that any mix-up of clocks is an error of
1,000 s. They are one machine with one boot id, which is no three hosts: see ``tests.two_hosts``.
"""

from __future__ import annotations

import io
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from inferbench_tasks.analysis.report.client_host import tables
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY, POLICIES
from tests.schedulers import age, confirm, holders, kinds
from tests.shared_load import SOUND, prepared, secrets_of, yaml
from tests.two_hosts import Begun, Hosts, hosts_apart, left_of, result_of
from tests.warm import ceilings, warm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


@pytest.fixture
def hosts(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosts]:
    warm(tmp_path / "client", tmp_path_factory)
    ceilings(tmp_path / "second", tmp_path_factory)
    with hosts_apart(perfdb, perfdb_uri, tmp_path, there="server", here="client", beside=["second"]) as three:
        yield three


def test_two_hosts_share_a_load(hosts: Hosts) -> None:
    """Each request of the one schedule leaves from one of them, from one instant on; all of it is in one result, with
    one certificate, three ledgers and both links; no secret is kept and nothing is left on any host."""
    prepared(hosts, "shared", yaml("shared"))
    secrets = secrets_of(hosts)
    hosts.run("client", "shared", yaml("shared"), "load")
    hosts.run("server", "shared", yaml("shared"), "collect", "release")
    hosts.release()
    result = result_of(hosts)
    assert result.verdict.measured or result.verdict.kind == "disturbed", result.verdict
    checks = {check["name"]: check for check in result.certificate["checks"]}
    assert {name for name, check in checks.items() if check["ok"]} >= SOUND, result.certificate["reasons"]
    assert {"hosts_apart", "host_lateness_p50", "host_lateness_p99"} <= checks.keys()
    records = hosts.db.samples(result.run_id)
    shard, intended = (np.asarray(records[name]) for name in ("shard", "intended_ns"))
    sent, done, number = (np.asarray(records[name]) for name in ("sent_ns", "done_ns", "request_id"))
    phase = np.asarray(records["phase"].combine_chunks().cast("string"))
    measured = phase == "measure"
    assert set(shard.tolist()) == {0, 1} and len(set(number.tolist())) == len(number)
    assert (np.diff(intended) >= 0).all() and (intended[-1] - intended[0]) / 1e9 < 20
    parts = [int((measured & (shard == one)).sum()) for one in (0, 1)]
    assert abs(parts[0] - parts[1]) <= 1 and sum(parts) == result.summary.model_dump()["requests"]
    late_ms = (sent - intended) / 1e6
    assert 0 <= np.median(late_ms[shard == 1]) < 20 and 0 < np.median((done - sent)[shard == 1]) / 1e6 < 100
    both = result.certificate["figures"]["sender_hosts"]
    assert [one["requests"] for one in both] == parts and [one["shards"] for one in both] == [[0], [1]]
    assert both[0]["misplaced_ms"] == 0 and 0 < both[1]["misplaced_ms"] < 10
    host = result.extensions["client_host"]
    second = host["second"]
    assert 0 < host["clock_error_ms"] < 10 and 0 < second["clock_error_ms"] < 10
    assert second["link"]["before"]["far"]["host"] == socket.gethostname()
    assert host["link"]["after"] and second["link"]["after"] and second["round_trip_meanwhile"]["count"] > 12
    ledger = result.summary.model_dump()["interference"]
    assert set(ledger["hosts"]) == {"server", "client", "second client"} and ledger["watched"]
    used = result.summary.model_dump()["resources"]
    assert used["client"]["cpu_s_total"] > 0 and used["second_client"]["cpu_s_total"] > 0
    window = result.extensions["measured_window"]
    recorded = read_recording(hosts.db.files.get(second["monitors"]["id"])).get("client", "cpu_s_total")
    assert recorded is not None and abs(recorded.t_ns[0] / 1e9 - window["start_ns"] / 1e9) > 900
    name = socket.gethostname()
    # The second client host is told by its address, too, for here all have one name.
    between = rf"between hosts from {name} and {name} \([0-9.]+\) to {name}"
    assert re.fullmatch(between, result.load.network or "")
    found = {
        table["title"].partition(":")[0]: table["rows"]
        for table in tables(load_runs(hosts.db, [result.run_id]))
    }
    assert len(found["The hosts"]) == 3 and len(found["The clocks"]) == 2
    kept = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    assert not any(secret in kept for secret in secrets)
    assert not list((hosts.homes["second"] / "servers").glob("*.json"))
    assert not left_of(result.run_id)


def senders(hosts: Hosts, host: str) -> list[psutil.Process]:
    """What sends on that host."""
    return [
        process for process in psutil.process_iter(["cmdline"])
        if (words := process.info["cmdline"] or []) and "inferbench_tasks.loadgen.shard" in words
        and str(hosts.homes[host]) in " ".join(words)
    ]  # fmt: skip


def scheduler_of(cluster: Cluster) -> Dispatcher:
    """One that finds what is leased, as after a restart."""
    policy = POLICIES.load(DEFAULT_POLICY)()
    return Dispatcher(cluster, policy, EventLog(io.StringIO(), policy.name, policy.params))


def test_a_lost_host_leaves_no_half_of_a_load_and_the_job_runs_again(hosts: Hosts) -> None:
    """Its senders die while both send: the other part ends at once, and the load, which knows of no fault of its own,
    waits until the scheduler finds that host's worker gone and has the job run again. Only then it fails, with the
    host's name; there is no result, and nothing is left of the other part."""
    text = yaml("gone", duration_s=40.0)
    prepared(hosts, "gone", text)
    begun = Begun(hosts, "client", "gone", text, "load")
    folder = hosts.homes["second"] / "runs"
    deadline_s = time.monotonic() + 300
    while not (
        spools := [path for path in folder.glob("*/second/shard-1.spool") if path.stat().st_size > 16_384]
    ):
        assert time.monotonic() < deadline_s and begun.process.poll() is None
        time.sleep(0.2)
    victims = [
        process for process in psutil.process_iter(["cmdline"])
        if "inferbench_tasks.stages.senders.far_senders" in (process.info["cmdline"] or [])
    ]  # fmt: skip
    assert len(victims) == 1 and len(spools) == 1
    run_id = spools[0].parents[1].name
    cluster, job = Cluster(hosts.db), hosts.job("gone")
    scheduler = scheduler_of(cluster)
    for name in hosts.held:
        cluster.beat(name, health="ok", reason="", queue_s=0.0)
    confirm(cluster)
    assert kinds(scheduler.tick()) == [("start", job)]
    scheduler.started(job)
    victims[0].kill()
    killed_s = time.monotonic()
    while senders(hosts, "client"):
        assert time.monotonic() - killed_s < 15
        time.sleep(0.1)
    time.sleep(3)  # in which a load that does not wait has told that it failed
    for name in hosts.held:
        cluster.beat(name, health="ok", reason="", queue_s=0.0)
    age(cluster, "second.cpu", TTL_S + 1)
    assert kinds(scheduler.tick()) == [("lost", job)]
    assert cluster.history(job) == (1, frozenset({"second.cpu"}))
    stages = {stage.stage: stage.state for stage in hosts.db.get_run(run_id).stages}
    assert stages["load"] == "running" and set(holders(cluster).values()) == {None}
    error = begun.error(120.0)
    assert error is not None and "The second client host" in error and "was lost" in error
    assert "records are kept in" in error
    hosts.run("server", "gone", text, "release")
    assert hosts.db.find_results({"submission.name": "gone"}) == []


@pytest.mark.long
def test_users_are_shared_and_a_late_host_is_named(hosts: Hosts) -> None:
    """A closed loop's users are of one host or the other; a sender that is stopped for a second makes all of it
    invalid, and the reason says on which host."""
    text = yaml("users", "{kind: closed_loop, concurrency: 3}", 10.0)
    prepared(hosts, "users", text)
    begun = Begun(hosts, "client", "users", text, "load")
    folder = hosts.homes["second"] / "runs"
    deadline_s = time.monotonic() + 300
    while not [path for path in folder.glob("*/second/shard-1.spool") if path.stat().st_size > 32_000]:
        assert time.monotonic() < deadline_s and begun.process.poll() is None
        time.sleep(0.1)
    time.sleep(2)  # the warm-up is over
    (sender,) = senders(hosts, "second")
    sender.suspend()
    time.sleep(1.0)
    sender.resume()
    assert begun.error() is None
    hosts.outputs = begun.outputs
    certificate = hosts.outputs["job-000.load"]["certificate"]
    assert not certificate["valid"]
    stall = next(check for check in certificate["checks"] if check["name"] == "client_stall")
    assert not stall["ok"] and "held up on " in stall["reason"]
    assert certificate["figures"]["sender_hosts"][1]["max_stall_ms"] > 800
    hosts.run("server", "users", text, "collect", "release")
    hosts.release()
    result = result_of(hosts)
    assert result.verdict.kind == "invalid" and "held up on " in str(result.verdict)
    shard = np.asarray(hosts.db.samples(result.run_id)["shard"])
    assert set(shard.tolist()) == {0, 1}
