"""``load.client_hosts: 3`` between four hosts: server and two clients in namespaces of their own, the first one here.

As ``test_load_from_two_hosts``. All of them share the cores of one machine, so that the verdict may well be against the
load; what was sent, by whom and when, has to be right all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.analysis.report.client_host import tables
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.perfdb.store import PerfDB
from tests.shared_load import SOUND, prepared, secrets_of, yaml
from tests.two_hosts import Hosts, hosts_apart, left_of, result_of
from tests.warm import ceilings, warm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]


@pytest.fixture
def hosts(
    perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosts]:
    warm(tmp_path / "client", tmp_path_factory)
    beside = ["second", "third"]
    for name in beside:
        ceilings(tmp_path / name, tmp_path_factory)
    with hosts_apart(perfdb, perfdb_uri, tmp_path, there="server", here="client", beside=beside) as four:
        yield four


def test_three_hosts_share_a_load(hosts: Hosts) -> None:
    """Every request of the one schedule leaves once, from the host whose turn it is, and all lie in its order; one
    certificate names each host, and where it is against the load says why; no secret and no process is left."""
    text = yaml("three", "{kind: poisson, rate_rps: 30}", 6.0, client_hosts=3)
    prepared(hosts, "three", text, further=2)
    secrets = secrets_of(hosts, further=2)
    assert len({*secrets}) == 6
    hosts.run("client", "three", text, "load")
    hosts.run("server", "three", text, "collect", "release")
    hosts.release()
    result = result_of(hosts)
    checks = {check["name"]: check for check in result.certificate["checks"]}
    assert {name for name, check in checks.items() if check["ok"]} >= SOUND, result.certificate["reasons"]
    assert result.certificate["valid"] or (result.certificate["reasons"] and result.verdict.reasons)

    records = hosts.db.samples(result.run_id)
    shard, number = (np.asarray(records[name]) for name in ("shard", "request_id"))
    intended, sent = (np.asarray(records[name]) for name in ("intended_ns", "sent_ns"))
    measured = np.asarray(records["phase"].combine_chunks().cast("string")) == "measure"
    assert np.array_equal(number, np.arange(len(number))) and (np.diff(intended) >= 0).all()
    # Each stretch of the load is dealt anew: the warm-up's requests, then those that are measured.
    begins = int(np.flatnonzero(measured)[0])
    dealt = np.concatenate([np.arange(begins) % 3, np.arange(len(number) - begins) % 3])
    assert np.array_equal(shard, dealt) and measured[begins:].all()
    assert (intended[-1] - intended[0]) / 1e9 < 10 and np.median(sent - intended) / 1e6 < 50

    parts = [int((measured & (shard == one)).sum()) for one in range(3)]
    of_each = result.certificate["figures"]["sender_hosts"]
    assert [one["requests"] for one in of_each] == parts and max(parts) - min(parts) <= 1
    assert [one["shards"] for one in of_each] == [[0], [1], [2]] and len(
        {one["host"] for one in of_each}
    ) == 3
    misplaced = [one["misplaced_ms"] for one in of_each]
    assert misplaced[0] == 0 and all(0 < one < 20 for one in misplaced[1:])
    assert checks["hosts_apart"]["value"] == pytest.approx(sum(misplaced))
    assert {"ceiling", "second_ceiling", "third_ceiling"} <= result.certificate["figures"].keys()

    host = result.extensions["client_host"]
    assert [one["host"] for one in (host, host["second"], host["third"])] == [one["host"] for one in of_each]
    assert all(one["link"]["after"] for one in (host, host["second"], host["third"]))
    summary = result.summary.model_dump()
    assert set(summary["interference"]["hosts"]) == {"server", "client", "second client", "third client"}
    used = summary["resources"]
    assert all(used[name]["cpu_s_total"] > 0 for name in ("client", "second_client", "third_client"))
    assert result.load.network.count(" and ") == 2 and result.load.network.count(" to ") == 1
    found = {
        one["title"].partition(":")[0]: one["rows"] for one in tables(load_runs(hosts.db, [result.run_id]))
    }
    assert len(found["The hosts"]) == 4 and len(found["The clocks"]) == 3

    kept = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    assert not any(secret in kept for secret in secrets)
    assert not [path for home in hosts.homes.values() for path in (home / "servers").glob("*.json")]
    assert not left_of(result.run_id)
