"""``systems`` in a real PerfDB: what a worker registers of its host is what a submission is decided by."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


NIGHT = f"{HEAD}systems: {{device: cpu, cores: '>=1'}}\n"


def test_a_night_chooses_among_the_devices_that_are_registered_when_it_runs(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task of its DAG returns what was chosen; where no device fits it fails with what each misses."""
    from airflow.sdk.exceptions import AirflowFailException

    from inferbench_tasks.provider.nightly.operators import ChooseSystem

    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    file = tmp_path / "night.yaml"
    file.write_text(NIGHT)
    choose: Any = ChooseSystem(task_id="choose", file=str(file))
    with pytest.raises(AirflowFailException, match="no worker has registered a device here"):
        choose.execute({})
    name = register(perfdb)
    chosen = choose.execute({})
    assert chosen["alike"] == [name] and chosen["device"] == "cpu" and chosen["arch"] == platform.machine()
    file.write_text(NIGHT.replace(">=1", ">=99999"))
    beat(perfdb, name)
    with pytest.raises(AirflowFailException, match=rf"systems\.cores: >=99999 is missed by {name} \(\d+\)"):
        choose.execute({})


def test_a_file_of_the_folder_chooses_when_it_is_started(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its DAG submits has the system in each job, as a submission that came by REST; the file stays as it is."""
    from airflow.sdk.exceptions import AirflowFailException

    from inferbench_tasks.provider.submit.operators import ValidateSubmission
    from inferbench_tasks.provider.submit.shelf import Shelf

    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "data"))
    folder = tmp_path / "submissions"
    folder.mkdir()
    monkeypatch.setenv(settings.SUBMISSIONS_DIR, str(folder))
    (folder / "chosen.yaml").write_text(ASKED)
    validate: Any = ValidateSubmission(task_id="validate", file="chosen")
    left: dict[str, Any] = {}
    run = SimpleNamespace(triggering_user_name=None)
    ti = SimpleNamespace(xcom_push=lambda key, value: left.update({key: value}))
    context = {"dag_run": run, "ti": ti, "params": {"priority": 3}}
    with pytest.raises(AirflowFailException, match="no worker has registered a device here"):
        validate.execute(context)
    name = register(perfdb)
    found = validate.execute(context)
    placed = Shelf(tmp_path / "data").get(found["dag_id"])
    assert placed is not None and placed.base_dir == str(folder)
    (job,) = expand(placed.submission)
    assert job.spec.only_on() == (name,) and job.spec.priority == 3
    assert (folder / "chosen.yaml").read_text() == ASKED
    (folder / "chosen.yaml").write_text(f"{HEAD}systems: {{memory_gb: '>=99999'}}\n")
    beat(perfdb, name)
    with pytest.raises(AirflowFailException, match=rf"systems\.memory_gb: >=99999 is missed by {name}"):
        validate.execute(context)
    assert any(problem["field"] == "systems.memory_gb" for problem in left["problems"])
