"""Manifests in a real PerfDB, by the commands and over REST."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.catalogue import CONFIG_DIR
from inferbench_tasks.cli.main import main
from inferbench_tasks.client import InferBench
from inferbench_tasks.errors import CancelledError, InputError, PerfDBError, SubmissionError
from inferbench_tasks.manifests.built_in.datasets import named_dataset
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.manifests.store import COLLECTION, ManifestStore
from inferbench_tasks.manifests.used import UsedManifests
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.submission.reader import read_submission_text
from inferbench_tasks.submission.schema import Submission
from tests.unit.perfdb.builders import result

pytestmark = [pytest.mark.integration, pytest.mark.airflow]
TEXT = "kind: scenario\nname: calm\nversion: {version}\nload: {{arrivals: {{kind: poisson, rate_rps: {rate}}}}}\n"


def scenario(version: str, rate: float = 5.0) -> Manifest:
    load = {"arrivals": {"kind": "poisson", "rate_rps": rate}}
    return of_plain({"kind": "scenario", "name": "calm", "version": version, "load": load}, "a test")


def test_a_version_in_perfdb_never_changes(perfdb: PerfDB) -> None:
    """Added once, found again; other content is refused, and one that was changed by hand is found out."""
    store = ManifestStore(perfdb)
    assert store.add(scenario("1.0.0")) and not store.add(scenario("1.0.0"))
    with pytest.raises(
        InputError, match=r"scenario:calm@1\.0\.0 with other content .* a version never changes"
    ):
        store.add(scenario("1.0.0", 6.0))
    assert [manifest.digest for manifest in store.all()] == [scenario("1.0.0").digest]
    change = {"$set": {"content.load.arrivals.rate_rps": 7.0}}
    perfdb.collection(COLLECTION).update_one({"_id": "scenario:calm@1.0.0"}, change)
    with pytest.raises(PerfDBError, match=r"scenario:calm@1\.0\.0 in PerfDB was changed"):
        store.all()


def test_by_the_commands(
    perfdb: PerfDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Add, list, show, diff; a second content is refused with exit code 2 and nothing of that call is kept."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)

    def call(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["manifests", *map(str, words)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    old, new, other = (tmp_path / name for name in ("old.yaml", "new.yaml", "other.yaml"))
    old.write_text(TEXT.format(version="1.0.0", rate=5))
    new.write_text(TEXT.format(version="1.1.0", rate=6))
    other.write_text(TEXT.format(version="1.0.0", rate=9))
    assert call("add", old, new)[0] == 0
    code, _, err = call("add", other)
    assert code == 2 and "a version never changes" in err
    code, out, _ = call("list", "scenario", "--name", "calm", "-o", "json")
    assert [row["version"] for row in json.loads(out)] == ["1.1.0", "1.0.0"]
    assert json.loads(call("show", "calm@~1.0", "-o", "json")[1])["load"]["arrivals"]["rate_rps"] == 5
    rows = json.loads(call("diff", "calm@1.0.0", new, "-o", "json")[1])
    assert [row["field"] for row in rows] == ["version", "load.arrivals.rate_rps"]
    code, _, err = call("show", "scenario:calm@^2")
    assert code == 2 and "there are: 1.1.0, 1.0.0" in err
    assert call("list", "modle")[0] == 2


def test_a_file_may_be_changed_until_a_run_has_used_its_version(
    perfdb: PerfDB, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the submission is refused with its line and that run, while the file says something else; under a new
    version, or as it was, it is taken."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    monkeypatch.setenv(CONFIG_DIR, str(tmp_path))
    file = tmp_path / "manifests" / "calm.yaml"
    file.parent.mkdir()

    def read(version: str, rate: int) -> Submission:
        file.write_text(TEXT.format(version=version, rate=rate))
        text = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {scenario: calm@^1}\n"
        submission = read_submission_text(text, "quick.yaml", INSTALLED)
        assert isinstance(submission, Submission)
        return submission

    read("1.0.0", 4)
    submission = read("1.0.0", 5)
    node = next(node for node in compile_plan(submission).nodes if node.stage == "generate")
    invocation = Invocation.new(data_dir, "quick")
    invocation.place(Order(submission=submission, base_dir=str(data_dir), data_dir=str(data_dir)))
    with pytest.raises(CancelledError):
        execute_node(
            node, {}, invocation=invocation, base_dir=data_dir, data_dir=data_dir, cancelled=lambda: True
        )
    with pytest.raises(SubmissionError) as refused:
        read("1.0.0", 6)
    (problem,) = map(str, refused.value.problems)
    assert problem.startswith("quick.yaml:3: load.scenario: scenario:calm@1.0.0 is in conflict")
    assert (
        f"the run {invocation.run_id(0)}, which used it" in problem and "a version never changes" in problem
    )
    row = next(entry.row() for entry in Catalogue.here(perfdb, "scenario").entries("scenario", "calm"))
    assert row["origin"].startswith("configs/manifests/calm.yaml, in conflict with the run")
    assert read("1.1.0", 6).manifests[0].version == "1.1.0"
    assert read("1.0.0", 5).manifests == submission.manifests


def test_a_release_may_bring_a_version_that_perfdb_had_before(
    perfdb: PerfDB, http: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data set's that somebody had stored as words@1.1.0: both are listed, all else is as before, and that version is
    refused by the commands and over REST."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb.uri)
    theirs = of_plain({"kind": "dataset", "name": "words", "version": "1.1.0", "source": "our scans"}, "x")
    ManifestStore(perfdb).add(theirs)

    def call(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["manifests", *words])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    rows = json.loads(call("list", "dataset", "--name", "words", "-o", "json")[1])
    assert [row["origin"] for row in rows] == [
        "built-in, in conflict with PerfDB",
        "PerfDB, in conflict with built-in",
    ]
    assert call("show", "model:digits@^1")[0] == 0
    code, _, err = call("show", "dataset:words@^1")
    assert code == 2 and "dataset:words@1.1.0 is in conflict" in err and "another version" in err
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    assert len(list(bench.manifests(kind="dataset", name="words"))) == 2
    with pytest.raises(InputError, match="in conflict"):
        bench.manifest("dataset:words@1.1.0")


def test_over_rest(perfdb: PerfDB, http: TestClient) -> None:
    """The client's words: a page, one in full by constraint, and 404 with the versions there are."""
    ManifestStore(perfdb).add(scenario("1.4.0"))
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    rows = list(bench.manifests(kind="scenario", name="calm"))
    assert [(row["version"], row["digest"], row["origin"]) for row in rows] == [
        ("1.4.0", scenario("1.4.0").digest[:12], "PerfDB")
    ]
    assert len(list(bench.manifests(kind="model", limit=7))) == 7
    assert bench.manifest("scenario:calm@^1")["digest"] == scenario("1.4.0").digest
    with pytest.raises(InputError, match=r"there are: 1\.4\.0"):
        bench.manifest("scenario:calm@^2")
    with pytest.raises(InputError, match="known: "):
        bench.manifest("modle:digits")


def test_results_that_used_one(perfdb: PerfDB, http: TestClient) -> None:
    """A scenario that a run named, in one of two results, and what it said then; a data set by what was judged on it;
    both over REST, as CSV and on the page, with the lock. Nobody named the newer version.
    """
    for version in ("1.4.0", "1.5.0"):
        ManifestStore(perfdb).add(scenario(version))
    named = {"kind": "scenario", "name": "calm", "version": "1.4.0", "asked": "calm@^1", "digest": "0" * 64}
    words = named_dataset("words")
    assert words is not None
    lock = {"manifests": [named], "data": {"evaluation": None}, "digest": "cd" * 32}
    perfdb.save_result(result("plain"))
    perfdb.save_result(result("calm", extensions={"lock": lock}))
    judged = {"manifests": [], "data": {"evaluation": {"manifest": words.record()}}, "digest": "ef" * 32}
    perfdb.save_result(result("read", extensions={"lock": judged, "evaluation": {"dataset": "words"}}))
    bench = InferBench("http://testserver", "ann", "x", http=http)  # type: ignore[arg-type]
    assert list(bench.manifest_results("scenario:calm@1.4.0")) == []  # of no run it is known that it named it
    UsedManifests(perfdb).remember([named], "calm")
    (row,) = bench.manifest_results("scenario:calm@1.4.0")
    assert (row["run"], row["asked"], row["same"], row["lock"]) == ("calm", "calm@^1", False, "cd" * 32)
    assert list(bench.manifest_results("scenario:calm@^1")) == []
    (row,) = bench.manifest_results(words.id)
    assert (row["run"], row["asked"], row["same"]) == ("read", None, True)
    csv = http.get(f"/inferbench/api/manifests/{words.id}/results?format=csv").text
    assert csv.splitlines()[0].startswith("run,attempt") and csv.splitlines()[1].startswith("read,1")
    page = http.get("/inferbench/manifest/scenario:calm@~1.4").text
    assert "/inferbench/run/calm" in page and "something else" in page and "cd" * 32 in page
    assert (
        "No run named it in its submission (first use noted: "
        in http.get("/inferbench/manifest/scenario:calm@^1").text
    )


def test_pages(perfdb: PerfDB, http: TestClient) -> None:
    """The list by kind and name; one of each kind; what there is not is said."""
    ManifestStore(perfdb).add(scenario("1.4.0"))
    text = http.get("/inferbench/manifests?kind=scenario&name=calm").text
    assert "/inferbench/manifest/scenario%3Acalm%401.4.0" in text and "there are 1<" in text
    assert "did you mean &#39;model&#39;" in http.get("/inferbench/manifests?kind=modle").text
    for id in ("model:digits@^1", "framework:numpy@*", "dataset:words@^1", "stack:onnxruntime@^1"):
        answer = http.get(f"/inferbench/manifest/{id}")
        expected = 404 if id.startswith("framework:numpy") else 200
        assert answer.status_code == expected and "<h1>" in answer.text, answer.text
    for id, words in (("scenario:calm@^2", "there are: 1.4.0"), ("digits", "name the kind, too")):
        answer = http.get(f"/inferbench/manifest/{id}")
        assert answer.status_code == 404 and words in answer.text, answer.text


def test_a_malformed_file_leaves_the_pages_of_all_others(
    perfdb: PerfDB, http: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of manifests and data sets name it with its error, as text; REST and whoever resolves are refused."""
    (tmp_path / "manifests").mkdir()
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(tmp_path))
    (tmp_path / "manifests" / "bad.yaml").write_text("kind: scenario\nname: <b>bad</b>\n")
    for path in (
        "manifests",
        "manifests?kind=stack",
        "manifest/stack:onnxruntime@^1",
        "datasets",
        "dataset/words",
    ):
        answer = http.get(f"/inferbench/{path}")
        assert answer.status_code == 200, answer.text
        assert "bad.yaml:2: name: " in answer.text and "<b>bad</b>" not in answer.text, path
    assert "bad.yaml" in http.get("/inferbench/manifest/scenario:bad").text
    assert http.get("/inferbench/api/manifests").status_code in (400, 422)
