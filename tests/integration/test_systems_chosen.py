"""``systems`` in a real PerfDB: what a worker registers of its host is what a submission is decided by."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.cli.main import main
from inferbench_tasks.cluster.hosts import HOSTS, Hosts
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.cluster.versions import own
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.manifests.built_in.frameworks import versions_here
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.submit.request import SubmissionRequest, decided, resolve
from inferbench_tasks.running.cluster_abilities import of_cluster
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import expand
from inferbench_tasks.workers.devices import find
from inferbench_tasks.workers.host_facts import facts

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
HOME = "a" * 32
HEAD = "name: x\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 5}}\n"
ASKED = f"{HEAD}systems: {{arch: {platform.machine()}, device: cpu, cores: '>=1', framework: 'onnxruntime>=1.0'}}\n"


def register(db: PerfDB) -> str:
    """This machine's cores as a device, as its worker does."""
    device = find("cpu").model_copy(update={"home": HOME})
    Hosts(db).enter(HOME, own(), facts(versions_here()))
    Cluster(db).register(device)
    return device.device_id


def beat(db: PerfDB, *names: str) -> None:
    """On a busy machine a test's steps may take longer than a worker may be silent."""
    for name in names:
        Cluster(db).beat(name, health="ok", reason="", queue_s=0.0)


def resolved(db: PerfDB, text: str, folder: Path) -> Submission:
    submission = resolve(SubmissionRequest(submission=text), folder, abilities=of_cluster(db)).submission
    assert isinstance(submission, Submission)
    return submission


def test_a_worker_that_registers_is_chosen(perfdb: PerfDB, tmp_path: Path) -> None:
    """By REST's way; the run that is started gets what was decided, though another worker registers meanwhile."""
    name = register(perfdb)
    request = SubmissionRequest(submission=ASKED)
    first = resolve(request, tmp_path, login="ann", abilities=of_cluster(perfdb))
    (job,) = expand(first.submission)
    assert job.spec.only_on() == (name,)
    conf = decided(request, first).parameters()
    Cluster(perfdb).register(find("cpu").model_copy(update={"home": HOME, "device_id": "another.cpu"}))
    beat(perfdb, name)
    again = resolve(
        SubmissionRequest.of_parameters(conf), tmp_path, login="ann", abilities=of_cluster(perfdb)
    )
    assert again == first
    beat(perfdb, name, "another.cpu")
    anew = expand(resolved(perfdb, ASKED, tmp_path))[0]
    assert anew.spec.only_on() == tuple(sorted((name, "another.cpu"))) and anew.digest == job.digest


def test_before_anything_starts_it_says_why_not(perfdb: PerfDB, tmp_path: Path) -> None:
    """No worker; one that misses something; one of a host that told nothing of frameworks."""
    with pytest.raises(SubmissionError, match="no worker has registered a device here"):
        resolved(perfdb, ASKED, tmp_path)
    name = register(perfdb)
    with pytest.raises(SubmissionError, match=rf"systems\.memory_gb: >=99999 is missed by {name} \(\d+\)"):
        resolved(perfdb, f"{HEAD}systems: {{memory_gb: '>=99999'}}\n", tmp_path)
    perfdb.collection(HOSTS).update_one({"_id": HOME}, {"$unset": {"facts.frameworks": 1}})
    with pytest.raises(SubmissionError, match=rf"is missed by {name} \(its worker did not tell\)"):
        resolved(perfdb, ASKED, tmp_path)


def test_a_plan_has_the_devices(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`inferbench plan` asks the same PerfDB; exit code 2 with every device where none fits."""
    name = register(perfdb)
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    path = tmp_path / "x.yaml"
    path.write_text(ASKED)
    with pytest.raises(SystemExit) as ended:
        main(["plan", str(path), "-o", "json"])
    assert ended.value.code == 0
    (row,) = json.loads(capsys.readouterr().out)["systems"]
    assert (row["device"], row["chosen"], row["misses"]) == (name, True, None)
    path.write_text(f"{HEAD}systems: {{cores: '>=99999'}}\n")
    for command in ("plan", "validate"):
        beat(perfdb, name)
        with pytest.raises(SystemExit) as ended:
            main([command, str(path)])
        assert ended.value.code == 2
        assert f"systems.cores: >=99999 is missed by {name}" in capsys.readouterr().err
