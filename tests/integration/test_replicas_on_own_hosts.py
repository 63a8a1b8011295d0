"""``serve.spread: own_hosts`` between hosts of namespaces: addresses, clocks and data directories of their own.

They are one machine with one boot id, which is no two hosts: that they count as such is ``ONE_MACHINE_AS_HOSTS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from inferbench_tasks import settings
from inferbench_tasks.analysis.report import replicas as report
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.cluster.links import Links
from inferbench_tasks.launchers import records
from inferbench_tasks.launchers.processes import MARK
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.perfdb.store import PerfDB
from tests import nginx
from tests.namespaces import AHEAD_S
from tests.two_hosts import Begun, Hosts, hosts_apart, result_of
from tests.warm import warm

MISSING = nginx.missing(lua=False)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(MISSING), reason=str(MISSING)),
]
YAML = """
name: %s
model: {kind: zoo, name: digits}
serve: {devices: %d, spread: own_hosts, balancer: {policy: round_robin}}
load: {arrivals: {kind: poisson, rate_rps: 60}, duration_s: %s, warmup_s: 1, wait_for_quiet_s: 0, protocol: %s}
"""


def yaml(name: str, devices: int = 2, duration_s: float = 6.0, protocol: str = "http") -> str:
    return YAML % (name, devices, duration_s, protocol)


@pytest.fixture
def hosts(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosts]:
    """``first``, this machine, and two hosts of namespaces; whatever of a run is left there is ended."""
    warm(tmp_path / "first", tmp_path_factory)
    with hosts_apart(perfdb, perfdb_uri, tmp_path, there="far", here="first", beside=("third",)) as all_hosts:
        try:
            yield all_hosts
        finally:
            for home in all_hosts.homes.values():
                swept(home)


def swept(home: Path, *devices: str) -> list[str]:
    """What the workers of that host's devices do once the job's lease has ended."""
    servers = settings.servers_dir(home)
    workers = devices or {record.worker for record in records.read_all(servers).values()}
    return [run_id for worker in workers for run_id in records.end_worker(servers, worker)]


def served(hosts: Hosts, name: str, text: str, far: tuple[str, ...] = ("far",)) -> None:
    """Up to the balancer, whose job holds a device of each host."""
    hosts.run("first", name, text, "generate", "convert")
    hosts.lease(name, "first.cpu", *(f"{host}.cpu" for host in far))
    hosts.run("first", name, text, "serve")
    for number, host in enumerate(far, 1):
        hosts.run(host, name, text, "replica" if number == 1 else f"replica_{number}")
    hosts.run("first", name, text, "balance")


def left(run_id: str) -> list[str]:
    """Processes that carry a run's mark, or stand in its folder: nginx writes its title over its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            marked = process.environ().get(MARK, "").startswith(f"{run_id}-")
            if marked or f"/runs/{run_id}/" in process.cwd():
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    ("protocol", "far"), [("http", ("far", "third")), pytest.param("grpc", ("far",), marks=pytest.mark.long)]
)
def test_replicas_on_hosts_of_their_own(hosts: Hosts, protocol: str, far: tuple[str, ...]) -> None:
    """Each answers its share through the first host's nginx and nobody without the secret; figures are sums over all
    hosts or have a reason; the links, machines and recordings of the others are in the result, on one clock though
    theirs are 1,000 s ahead; and once the lease has ended nothing is left anywhere."""
    text = yaml("apart", 1 + len(far), protocol=protocol)
    served(hosts, "apart", text, far)
    balanced = hosts.outputs["job-000.balance"]["serve"]
    secret = balanced["endpoint"]["secret"]
    assert [replica["host"] for replica in balanced["replicas"]] == ["first", *far]
    assert balanced["endpoint"]["host"] == "127.0.0.1" == balanced["replicas"][0]["endpoint"]["host"]
    second = balanced["replicas"][1]["endpoint"]
    assert second["host"] == hosts.fars[far[0]].address
    if protocol == "http":
        url = f"http://{second['host']}:{second['port']}/v2/health/ready"
        asked = subprocess.run(
            ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], capture_output=True, text=True
        )
        assert asked.stdout == "401"
    hosts.run("first", "apart", text, "load", "collect")
    loaded = hosts.outputs["job-000.load"]
    assert len(json.dumps(loaded)) < 200_000 and "exchanges" not in json.dumps(loaded)
    result = result_of(hosts)
    document, summary = result.model_dump(mode="json"), result.summary.model_dump()
    assert result.verdict.measured or result.verdict.kind == "disturbed", result.verdict
    checks = {check["name"]: check["ok"] for check in result.certificate["checks"]}
    assert checks["replica_counts"] and checks["replica_idle"] and summary["error_ratio"] == 0.0
    counted = [server["samples"] for server in document["extensions"]["replicas"]["servers"]]
    # In turns by each of nginx's processes: evenly but for where these began.
    assert min(counted) > 0.5 * max(counted) and sum(counted) == loaded["requests"]

    used, each = summary["resources"], summary["per_device"]["replicas"]
    own = [used["server"][f"replica{number}_cpu_s_total"] for number in range(1, 2 + len(far))]
    assert min(own) > 0.0 and used["server"]["cpu_s_total"] == pytest.approx(sum(own), rel=0.02)
    assert [row["cpu_cores"] is not None and row["rss_bytes"] > 0 for row in each] == [True] * len(own)
    assert summary["cpu_ms_per_sample"] == pytest.approx(
        used["server"]["cpu_cores"]["mean"] * 1e3 / summary["throughput_samples_per_s"]
    )
    assert "host" not in used and used["replica2_host"]["cpu_busy_s_total"] > 0
    assert summary["energy"]["joule_per_request"] is None and "hosts" in summary["energy"]["reason"]
    assert summary["cpu_time"]["clock"]["known"] is False

    ledger = summary["interference"]
    assert [*ledger["hosts"]] == [f"replica {number}" for number in range(1, 2 + len(far))]
    assert ledger["watched"] and all(one["watched"] for one in ledger["hosts"].values())
    window = document["extensions"]["measured_window"]
    others = document["extensions"]["replicas"]["hosts"]
    assert [host["host"] for host in others] == [*far]
    listed = [link.model_dump(mode="json") for link, _ in Links(hosts.db).all()]
    for host in others:
        assert host["link"]["after"] in listed
        assert host["link"]["after"] is not None and host["round_trip_meanwhile"]["count"] > 12
        assert 0 < host["clock_error_ms"] < 10 and host["clock_reason"] == "" and host["hardware"]["cpu"]
        raw = read_recording(hosts.db.files.get(host["monitors"]["id"])).get("server", "cpu_s_total")
        assert raw is not None and abs(raw.t_ns[0] / 1e9 - window["start_ns"] / 1e9) > AHEAD_S / 2
    merged = read_recording(hosts.db.files.get(document["extensions"]["monitors"]["id"]))
    series = merged.get("server", "cpu_s_total")
    assert series is not None and series.reaches(window["start_ns"], window["end_ns"])
    told = result.certificate["figures"]["replica_hosts"]
    assert [row["host"] for row in told] == [*far] and all(row["round_trip_before_ms"] > 0 for row in told)
    assert document["device"]["name"].endswith(f" on {1 + len(far)} hosts")
    assert document["load"]["network"] == f"between hosts {' and '.join(sorted(['first', *far]))}"
    assert document["backend"]["settings"]["spread"] == "own_hosts"

    views = load_runs(hosts.db, [result.run_id])
    found = {table["title"]: table["rows"] for table in report.tables(views)}
    assert len(found["The hosts of the replicas beside the first"]) == len(far)
    assert len(found["The network to the replicas"]) == 3 * len(far)
    assert "the median round trip" in report.words(views)

    hosts.run("first", "apart", text, "release")
    hosts.release()
    for name in far:
        assert swept(hosts.homes[name], f"{name}.cpu") != []
    assert left(result.run_id) == []
    assert not any([*settings.servers_dir(home).glob("*.json")] for home in hosts.homes.values())
    stored = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    watches = [one["watch"]["secret"] for one in balanced["far_replicas"]]
    assert not any(one in stored for one in (secret, *watches))
    configs = [path.read_text() for path in hosts.folder.glob("*/runs/*/server/**/*.conf")]
    assert configs and not any(secret in text for text in configs)


def amid(hosts: Hosts, name: str, text: str, kill: Any) -> tuple[str, float]:
    """What a load says amid which ``kill`` is called, and how long after that, s."""
    begun = Begun(hosts, "first", name, text, "load")
    folder = hosts.homes["first"] / "runs"
    deadline_s = time.monotonic() + 300
    while not [path for path in folder.glob("*/load/*.spool") if path.stat().st_size > 16_384]:
        assert time.monotonic() < deadline_s and begun.process.poll() is None
        time.sleep(0.2)
    kill()
    killed_s = time.monotonic()
    error = begun.error(150.0)
    assert error is not None
    return error, time.monotonic() - killed_s


def test_a_replica_that_dies_ends_the_run_with_its_name(hosts: Hosts) -> None:
    """On whichever host it stood; it says nothing of another run, for there is none; nothing is left."""
    text = yaml("dies", duration_s=60.0)
    served(hosts, "dies", text)
    far = hosts.outputs["job-000.replica"]["replica"]["server"]
    error, took_s = amid(hosts, "dies", text, lambda: os.killpg(far["pid"], 9))
    assert "Replica 2 of 2 (far.cpu) on far: its server" in error and "while the load lasted" in error
    assert "records are kept in" in error and "again" not in error.splitlines()[0] and took_s < 40
    hosts.run("first", "dies", text, "release")
    hosts.release()
    swept(hosts.homes["far"], "far.cpu")
    assert hosts.db.find_results({"submission.name": "dies"}) == []


@pytest.mark.long  # one that dies is above
def test_a_host_that_goes_away_ends_the_load_once_its_lease_is_lost(hosts: Hosts) -> None:
    """Server and watch are gone at once, as with a host that is switched off; the load waits until the job is known to
    have lost the device, by which a scheduler runs it again."""
    text = yaml("gone", duration_s=60.0)
    served(hosts, "gone", text)
    far = hosts.homes["far"]

    def gone() -> None:
        swept(far, "far.cpu")
        hosts.release()

    error, took_s = amid(hosts, "gone", text, gone)
    assert "Replica 2 of 2 (far.cpu) on far: " in error and took_s < 60


def test_a_replica_that_can_not_start_leaves_nothing_there(hosts: Hosts) -> None:
    """Said by its number and device; the balancer is never started."""
    text = yaml("broken").replace("balancer:", "ready_timeout_s: 0.001, balancer:")
    hosts.run("first", "broken", text.replace("ready_timeout_s: 0.001, ", ""), "generate", "convert")
    hosts.lease("broken", "first.cpu", "far.cpu")
    hosts.run("first", "broken", text.replace("ready_timeout_s: 0.001, ", ""), "serve")
    begun = Begun(hosts, "far", "broken", text, "replica")
    error = begun.error()
    assert error is not None and "Replica 2 of 2 (far.cpu): " in error
    assert not list(settings.servers_dir(hosts.homes["far"]).glob("*.json"))
    hosts.run("first", "broken", text.replace("ready_timeout_s: 0.001, ", ""), "release")
    hosts.release()
