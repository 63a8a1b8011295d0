"""``load.from: other_host`` between two hosts of namespaces: addresses, clocks and data directories of their own.

They are one machine with one boot id, which is no two hosts: that they count as such is ``ONE_MACHINE_AS_HOSTS``.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.analysis.report.client_host import tables
from inferbench_tasks.analysis.report.runs import load_runs
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.contracts import own_requests
from inferbench_tasks.contracts.located import references
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.protocols.kserve_proto import SERVICE
from inferbench_tasks.tracing.share import share_in_words
from inferbench_tasks.tracing.spans import spans_of
from tests.away_clocks import misplaced
from tests.docker_engine import ENVIRONMENTS
from tests.namespaces import AHEAD_S
from tests.two_hosts import Hosts, hosts_apart, left_of, result_of
from tests.warm import ceilings, warm

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]
YAML = """
name: %s
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 40}, duration_s: 6, warmup_s: 1, wait_for_quiet_s: 0, from: %s}
"""


AWAY, ALONE = YAML % ("away", "other_host"), YAML % ("alone", "server_host")
TRACED = YAML % ("traced", "other_host") + "trace: {one_in: 2, rounds: 1}\n"


@pytest.fixture
def hosts(
    request: pytest.FixtureRequest,
    perfdb: PerfDB,
    perfdb_uri: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Hosts]:
    """Two, and what the wire between them takes each way (``request.param``, ms; none by itself)."""
    warm(tmp_path / "client", tmp_path_factory)
    ceilings(tmp_path / "server", tmp_path_factory)
    delay_ms = getattr(request, "param", 0.0)
    with hosts_apart(perfdb, perfdb_uri, tmp_path, there="server", here="client", delay_ms=delay_ms) as two:
        yield two


# A delay is the kernel's (netem); where it has none these are skipped, with its word.
@pytest.mark.parametrize(
    "hosts",
    [0.0, pytest.param(1.0, marks=pytest.mark.long), pytest.param(10.0, marks=pytest.mark.long)],
    ids="{:g} ms each way".format,
    indirect=True,
)
def test_a_load_from_another_host(hosts: Hosts) -> None:
    """Served on one host, loaded from the other, judged by both; its latencies are those of the server's own host and
    the link's round trip, however long that is. The secret is in no document, the server answers nobody without it,
    and nothing is left."""
    hosts.run("client", "away", AWAY, "generate", "convert")
    hosts.lease("away", "server.cpu", "client.cpu")
    hosts.run("server", "away", AWAY, "serve")
    served = hosts.outputs["job-000.serve"]
    secret, far_secret = served["endpoint"]["secret"], served["far"]["secret"]
    url = f"http://{served['endpoint']['host']}:{served['endpoint']['port']}/v2/health/ready"
    asked = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url], capture_output=True, text=True
    )
    assert served["endpoint"]["host"] == hosts.far.address and asked.stdout == "401"
    hosts.run("client", "away", AWAY, "load")
    loaded = hosts.outputs["job-000.load"]
    assert str(hosts.homes["client"]) not in json.dumps(loaded) and len(references(loaded)) == 2
    hosts.run("server", "away", AWAY, "collect", "release")
    hosts.release()
    away = result_of(hosts)
    summary = away.summary.model_dump()
    assert away.verdict.measured or away.verdict.kind == "disturbed", away.verdict
    # What the sender needed of a busy machine may be against it; what was sent, and recorded, may not.
    sound = {
        "empty",
        "repeated_records",
        "backward_records",
        "errors",
        "unrecorded",
        "schedule_moved",
        "sent_early",
    }
    assert {check["name"] for check in away.certificate["checks"] if check["ok"]} >= sound
    assert summary["error_ratio"] == 0.0 and hosts.db.samples(away.run_id).num_rows > 200
    host = away.extensions["client_host"]
    assert host["unwatched"] == "" and 0 < host["clock_error_ms"] < 10 and host["link"]["after"] is not None
    ledger = summary["interference"]
    assert ledger["watched"] and ledger["hosts"]["server"]["watched"] and ledger["hosts"]["client"]["watched"]
    assert summary["resources"]["server"]["cpu_cores"]["mean"] > 0
    assert summary["resources"]["client"]["cpu_cores"]["mean"] > 0
    # Both are this machine by its name.
    assert away.load.network == f"between hosts from {socket.gethostname()} to {socket.gethostname()}"
    stored = hosts.db.files.get(away.extensions["monitors"]["id"])
    series = read_recording(stored).get("server", "cpu_s_total")
    window = away.extensions["measured_window"]
    assert series is not None and series.reaches(window["start_ns"], window["end_ns"])
    assert (
        abs(hosts.outputs["job-000.load"]["away"]["exchanges"][0][1] / 1e9 - window["start_ns"] / 1e9)
        > AHEAD_S / 2
    )
    run = hosts.db.get_run(away.run_id).model_dump_json() + away.model_dump_json()
    assert secret not in run and far_secret not in run
    assert not list((hosts.homes["server"] / "servers").glob("*.json"))
    assert not left_of(away.run_id)
    hosts.outputs = {name: hosts.outputs[name] for name in ("job-000.generate", "job-000.convert")}
    hosts.lease("alone", "server.cpu")
    hosts.run("server", "alone", ALONE, "serve", "load", "collect", "release")
    alone = result_of(hosts)
    assert "client_host" not in alone.extensions and alone.load.network == "lan"
    trip = host["link"]["before"]["round_trip"]
    uncertain_ms = trip["p90_ms"] - trip["min_ms"] + 0.5
    gap_ms = median_ms(hosts, away) - median_ms(hosts, alone)
    assert gap_ms == pytest.approx(trip["p50_ms"], abs=uncertain_ms)


def test_requests_of_it_are_traced_on_one_clock(hosts: Hosts) -> None:
    """One in two of those that the other host sends again: its client's spans and the server's, on the clock of the
    server's host, which is 1,000 s ahead of its own; each request lies where it was to the error that it states, and
    each server's span within it to that. What waits to send is known by a secret that nobody keeps, and ends."""
    hosts.run("client", "traced", TRACED, "generate", "convert")
    hosts.lease("traced", "server.cpu", "client.cpu")
    hosts.run("server", "traced", TRACED, "serve")
    hosts.run("client", "traced", TRACED, "load")
    waits = hosts.outputs["job-000.load"]["trace_sender"]
    assert waits["problem"] == "" and waits["reached"]["address"] == hosts.far.near
    hosts.run("server", "traced", TRACED, "trace", "collect", "release")
    hosts.release()
    result = result_of(hosts)
    trace = result.extensions["trace"]
    assert "problem" not in trace, trace
    assert (trace["defects"], trace["unanswered"], trace["failed"]) == (0, 0, 0)
    spans = list(spans_of(pq.read_table(pa.BufferReader(hosts.db.files.get(trace["file"]["id"])))))
    roots = [span for span in spans if span.parent < 0]
    assert len(roots) == trace["requests"] > 60
    for name in ("wait to send", "to first byte", "to last byte", "server", "queue", "inference"):
        assert sum(span.name == name for span in spans) == len(roots), name
    told = trace["hosts"]
    errors_ns = [root.attributes["clock_error_ns"] for root in roots]
    assert min(errors_ns) > 0 and told["error_ms"] == max(errors_ns) / 1e6 < 10
    (clock,) = told["clocks"]
    assert clock["ahead_ms"] == pytest.approx(-AHEAD_S * 1e3, abs=10)
    assert told["ways"]["both_ms"] > 0 and "to within" in (share_in_words(trace) or "")
    # The client's host is this machine, so its clock is the test's.
    folder = hosts.homes["client"] / "runs" / result.run_id / own_requests.TRACE
    assert misplaced(roots, read_samples(folder / "samples.parquet"), 0) == []
    kept = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    assert waits["reached"]["secret"] not in kept
    assert not [*(hosts.homes["client"] / "servers").glob("*.json")] and not left_of(result.run_id)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["onnxruntime", "triton"])
def test_a_load_over_grpc(hosts: Hosts, backend: str) -> None:
    """Our server and Triton: who has the run's secret is answered, nobody else; their own times are in the result."""
    if reason := BACKENDS.load(backend).unavailable("process"):
        pytest.skip(reason)
    text = AWAY.replace("duration_s: 6", "duration_s: 6, protocol: grpc") + f"serve: {{backend: {backend}}}\n"
    ENVIRONMENTS.mkdir(exist_ok=True)
    if backend == "triton":  # the host of the namespace reaches no index of packages
        environment = BACKENDS.load("triton")().environment()
        assert environment is not None
        environment.ensure(ENVIRONMENTS)
    envs = hosts.homes["server"] / "cache" / "envs"
    envs.parent.mkdir(parents=True)
    envs.symlink_to(ENVIRONMENTS)
    hosts.run("client", "away", text, "generate", "convert")
    hosts.lease("away", "server.cpu", "client.cpu")
    hosts.run("server", "away", text, "serve")
    endpoint = hosts.outputs["job-000.serve"]["endpoint"]
    assert endpoint["host"] == hosts.far.address
    for metadata in ((), ((endpoint.get("metadata_key", "authorization"), "Bearer x"),)):
        with grpc.insecure_channel(f"{endpoint['host']}:{endpoint['port']}") as channel:
            ready = channel.unary_unary(f"/{SERVICE}/ServerReady")
            with pytest.raises(grpc.RpcError) as refusal:
                ready(b"", metadata=metadata, timeout=10)
        assert refusal.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE)
    hosts.run("client", "away", text, "load")
    hosts.run("server", "away", text, "collect", "release")
    hosts.release()
    result = result_of(hosts)
    summary = result.summary.model_dump()
    assert summary["error_ratio"] == 0.0 and hosts.db.samples(result.run_id).num_rows > 200
    host = result.extensions["client_host"]
    assert host["unwatched"] == "" and host["round_trip_meanwhile"]["count"] > 15
    method = {"onnxruntime": "per_request", "triton": "server_statistics"}[backend]
    assert summary["stages_ms"]["method"] == method and summary["stages_ms"]["inference"]["mean"] > 0
    stored = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    assert endpoint["secret"] not in stored
    titles = {table["title"] for table in tables(load_runs(hosts.db, [result.run_id]))}
    assert {"The hosts", "The network between them"} <= titles


def median_ms(hosts: Hosts, result: Any) -> float:
    """Of a request from its send to its answer, as they were recorded."""
    samples = hosts.db.samples(result.run_id)
    done, sent = (np.asarray(samples[name].to_pylist()) for name in ("done_ns", "sent_ns"))
    return float(np.median(done - sent)) / 1e6
