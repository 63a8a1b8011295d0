"""``kind: training`` on two hosts of namespaces: addresses, clocks and data directories of their own, one wire between.

The first host's CLOCK_MONOTONIC is 1,000 s ahead, so that any time of one that is set beside the other's shows.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from inferbench_tasks.cluster.links import Links
from inferbench_tasks.contracts.located import references
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.training import step_spans
from inferbench_tasks.training.diagnosis.of_run import diagnosis_of
from inferbench_tasks.training.order import FOLDER, PROGRESS_FILE, Answer, answer_path
from inferbench_tasks.training.result import TrainingResult
from tests.away_hosts import RUN
from tests.namespaces import AHEAD_S
from tests.two_hosts import Begun, Hosts, hosts_apart, left_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]
YAML = """
kind: training
name: %s
data: {kind: digits, samples: 480}
train: {batch_size: %d, warmup_steps: 4, rounds: %d}
devices: %s
"""
TWO = "{count: 2, hosts: 2, strategy: ddp}"


@pytest.fixture
def hosts(perfdb: PerfDB, perfdb_uri: str, tmp_path: Path) -> Iterator[Hosts]:
    """``first``: in the namespace, the job's own; ``second``: this machine."""
    with hosts_apart(perfdb, perfdb_uri, tmp_path, there="first", here="second") as two:
        yield two


def run_id(hosts: Hosts, name: str) -> str:
    return Invocation.of_dag_run(hosts.homes["first"], name, RUN).run_id(0)


def result_of(hosts: Hosts) -> TrainingResult:
    where = {"run_id": hosts.outputs["job-000.collect"]["run_id"]}
    (result,) = hosts.db.results_of(TrainingResult, where)
    return result


def answer(hosts: Hosts, host: str, name: str, rank: int) -> Answer:
    path = answer_path(hosts.homes[host] / "runs" / run_id(hosts, name) / FOLDER, rank)
    return Answer.model_validate_json(path.read_text())


def test_two_hosts_train_as_one_with_the_same_global_batch(hosts: Hosts) -> None:
    """Losses of each step and weights are those of two processes of one host. The result has both hosts, the link
    before and after, and no time of one by the other's clock; the secret is in no document, and no process is left."""
    both = YAML % ("both", 16, 3, TWO)
    hosts.run("second", "both", both, "generate")
    hosts.lease("both", "first.cpu", "second.cpu")
    met = hosts.run("first", "both", both, "meet")["job-000.meet"]
    trained = hosts.run("second", "both", both, "train")["job-000.train"]
    assert str(hosts.homes["second"]) not in json.dumps(trained) and len(references(trained)) == 2
    hosts.run("first", "both", both, "collect", "release")
    hosts.release()
    result = result_of(hosts)
    # What else runs on the machine of the test may be against it, nothing of the training itself.
    assert {str(reason.check).partition(".")[0] for reason in result.verdict.reasons} <= {"interference"}, (
        result.verdict
    )
    summary, extensions = result.summary, result.extensions
    assert summary is not None and result.engine is not None and result.engine.processes == 2
    assert extensions["link"]["after"] in [link.model_dump(mode="json") for link, _ in Links(hosts.db).all()]
    assert summary.synchronised["steps"] == 3 * 11
    assert [rank["rank"] for rank in summary.synchronised["ranks"]] == [0, 1]
    assert 0 < summary.synchronised["all_reduce"]["wall_ms"]["mean"] < 10_000
    assert 0 < summary.bare["samples_per_s"] < 1e6

    link = extensions["link"]
    assert link["before"]["far"]["address"] == hosts.far.address and link["after"] is not None
    assert 0 < link["before"]["up_mbit_s"] < 110
    clock = extensions["hosts_clock"]
    assert clock["error_ns"] < 10e6
    assert abs(clock["ahead_ns"] - AHEAD_S * 1e9) <= clock["error_ns"]
    assert [host["ranks"] for host in extensions["hosts"]] == [[0], [1]]
    assert [device["device_id"] for device in extensions["devices"]] == ["first.cpu", "second.cpu"]
    ledger = result.certificate["interference"]
    assert ledger["watched"] and [one["watched"] for one in ledger["hosts"]] == [True, True]
    for host in extensions["hosts"]:
        window, stored = host["measured_window"], hosts.db.files.get(host["monitors"]["id"])
        series = read_recording(stored).get("host", "cpu_busy_s_total")
        assert series is not None and series.reaches(window["start_ns"], window["end_ns"])
        assert host["cores"] and host["hardware"] and host["versions"]["torch"] == result.engine.version
    starts_ns = [host["measured_window"]["start_ns"] for host in extensions["hosts"]]
    assert starts_ns[0] - starts_ns[1] == pytest.approx(AHEAD_S * 1e9, abs=5e9)
    assert summary.spending is not None and "two hosts" in summary.spending["energy"]["reason"]

    # Traces alone set moments of both beside each other: steps of 1,000 s would be a mix-up of clocks.
    spans = step_spans.table(hosts.db, result).to_pylist()
    whole = [span for span in spans if span["level"] == "application"]
    assert whole and max(span["duration_ns"] for span in whole) < 60e9
    assert all(cause.cost_s is None or cause.cost_s < 60 for cause in diagnosis_of(hosts.db, result).causes)

    secret = met["first"]["secret"]
    kept = hosts.db.get_run(result.run_id).model_dump_json() + result.model_dump_json()
    assert secret not in kept
    assert not left_of(run_id(hosts, "both"))
    for home in hosts.homes.values():
        assert not list((home / "servers").glob("*.json"))

    own, other = answer(hosts, "first", "both", 0), answer(hosts, "second", "both", 1)
    assert own.parameters == pytest.approx(other.parameters, rel=1e-6)
    alone = YAML % ("alone", 16, 3, "{processes: 2, strategy: ddp}")
    hosts.outputs = {}
    hosts.lease("alone", "second.cpu")
    hosts.run("second", "alone", alone, "generate", "train", "collect", "release")
    hosts.release()
    for rank, trained_here in enumerate((own, other)):
        of_one = answer(hosts, "second", "alone", rank)
        assert trained_here.parameters == pytest.approx(of_one.parameters, rel=1e-9)
        for two, one in zip(trained_here.epochs, of_one.epochs, strict=True):
            assert two.losses == pytest.approx(one.losses, rel=1e-6)
    assert "hosts" not in result_of(hosts).extensions
    assert result.samples is not None
    steps = pq.read_table(pa.BufferReader(hosts.db.files.get(result.samples)))
    assert set(steps["rank"].to_pylist()) == {0, 1}


def rank_process(run: str, number: int) -> psutil.Process | None:
    """The process of that rank of the run."""
    ranks = [
        left["pid"] for left in left_of(run)
        if left["environ"].get("RANK") == str(number) and any("rank_main" in word for word in left["cmdline"])
    ]  # fmt: skip
    return psutil.Process(ranks[0]) if ranks else None


def until(condition: Callable[[], Any], what: str, limit_s: float = 300.0) -> Any:
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
    return found


@pytest.mark.long  # a host that is lost with all that is on it: tests/integration/test_three_hosts.py
@pytest.mark.parametrize("lost", ["the first host's rank", "the second host's rank", "what leads them"])
def test_one_host_lost_ends_both(hosts: Hosts, lost: str) -> None:
    """Amid the training, by whatever is killed on either: the ranks of both hosts end, before anybody cleans up, and
    what is said names both hosts."""
    long = YAML % ("long", 16, 100, TWO)
    hosts.run("second", "long", long, "generate")
    hosts.lease("long", "first.cpu", "second.cpu")
    hosts.run("first", "long", long, "meet")
    run = run_id(hosts, "long")
    stage = Begun(hosts, "second", "long", long, "train")
    told = hosts.homes["first"] / "runs" / run / FOLDER / PROGRESS_FILE
    until(told.exists, "no epoch ended")
    if lost == "what leads them":
        os.kill(stage.process.pid, signal.SIGKILL)
        assert "it was ended" in (stage.error(60) or "")
    else:
        number = 0 if "first" in lost else 1
        process = until(lambda: rank_process(run, number), f"no rank {number}")
        process.kill()
        error = stage.error(90)
        assert error is not None and f"rank {number} (pid {process.pid}) was killed by signal 9" in error
        assert "The run ended on both hosts" in error
    until(lambda: not left_of(run), f"left: {left_of(run)}", 60)
    hosts.run("first", "long", long, "release")
    assert not list((hosts.homes["first"] / "servers").glob("*.json"))
