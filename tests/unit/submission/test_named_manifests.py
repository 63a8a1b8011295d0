"""Submissions that name manifests: the same jobs as written out, and what each name was resolved to."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import abilities
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.manifests.named import known_here
from inferbench_tasks.submission.manifest_record import of_job
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import Job, expand

pytestmark = pytest.mark.usefixtures("data_dir")
MODEL = "name: x\nmodel: {kind: manifest, name: digits, version: ^1}\n"
PLAIN = "name: x\nmodel: {kind: zoo, name: digits}\n"
LOAD = "load: {arrivals: {kind: poisson, rate_rps: 5}}\n"


def read(text: str, folder: Path | None = None) -> Submission:
    submission = read_submission_text(text, "x.yaml", INSTALLED, base_dir=folder)
    assert isinstance(submission, Submission)
    return submission


def jobs(text: str) -> list[Job[Any]]:
    return expand(read(text))


def problems(text: str, folder: Path | None = None) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read(text, folder)
    return [str(problem) for problem in caught.value.problems]


def names(job: Job[Any]) -> set[str]:
    return {record.id for record in of_job(job.spec.manifests, job.spec.model_dump(mode="json"))}


def test_what_is_measured_is_what_the_manifests_stand_for() -> None:
    """The digest of a submission that names all is that of the one that spells it out, by hand."""
    by_name = MODEL + "stack: onnxruntime-batching@^1\nload: {scenario: poisson-50@~1.0, seed: 3}\n"
    written_out = (
        PLAIN + "serve: {batching: {max_batch_size: 8, max_delay_ms: 2}}\n"
        "load: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 10, seed: 3}\n"
    )
    (named,), (plain,) = jobs(by_name), jobs(written_out)
    assert named.digest == plain.digest and named.job_id == plain.job_id
    assert plain.spec.manifests == ()
    records = {record.kind: record for record in named.spec.manifests if record.kind != "framework"}
    assert {kind: (record.asked, record.version) for kind, record in records.items()} == {
        "model": ("digits@^1", "1.1.0"),
        "scenario": ("poisson-50@~1.0", "1.0.0"),
        "stack": ("onnxruntime-batching@^1", "1.0.0"),
    }
    assert records["model"].digest == INSTALLED.manifests().manifest("model", "digits", "1.1.0").digest


def test_names_are_swept_and_each_job_knows_its_own() -> None:
    """Models, scenarios and stacks under ``sweep``, alone and in a zip: the jobs of the sweep written out."""
    swept = (
        MODEL
        + LOAD
        + "serve: {threads: 2}\nsweep:\n  stack: [onnxruntime@^1, openvino, onnxruntime-batching@1]\n"
    )
    written = [
        "serve: {threads: 2}\n",
        "serve: {threads: 2, backend: openvino}\nconvert: {format: openvino}\n",
        "serve: {threads: 2, batching: {max_batch_size: 8, max_delay_ms: 2}}\n",
    ]
    made = jobs(swept)
    assert [job.digest for job in made] == [jobs(PLAIN + LOAD + text)[0].digest for text in written]
    stacks = [{name for name in names(job) if name.startswith("stack:")} for job in made]
    assert stacks == [{f"stack:{n}@1.0.0"} for n in ("onnxruntime", "openvino", "onnxruntime-batching")]
    assert any(name.startswith("framework:openvino@") for name in names(made[1]))
    assert not any(name.startswith("framework:openvino@") for name in names(made[0]))
    both = (
        PLAIN
        + LOAD
        + "sweep:\n  zip:\n    model: [{kind: manifest, name: digits}, {kind: zoo, name: lstm}]\n"
        "    load.scenario: [single-stream@1, closed-loop-4@1]\n"
    ).replace("load: {arrivals: {kind: poisson, rate_rps: 5}}\n", "load: {scenario: offline}\n")
    first, second = jobs(both)
    assert (first.spec.model.name, first.spec.traffic.arrivals.kind) == ("digits", "single_stream")
    assert (second.spec.model.name, second.spec.traffic.arrivals.kind) == ("lstm", "closed_loop")
    assert "model:digits@1.1.0" in names(first) and "model:digits@1.1.0" not in names(second)


def test_what_is_wrong_has_its_line_and_what_there_is() -> None:
    """Constraints that nothing meets, malformed ones, unknown names, what is said twice; all at once."""
    told = problems(
        'name: x\nmodel: {kind: manifest, name: digits, version: "^2"}\nstack: onnxruntime-batching\n'
        "serve: {backend: openvino}\nload:\n  scenario: poissn-50\n  duration_s: 4\n"
    )
    assert told == [
        "x.yaml:2: model.version: no version of the model digits fits '^2'; there are: 1.1.0",
        "x.yaml:4: serve.backend: the stack onnxruntime-batching@1.0.0 says it; leave it out, or name no stack",
        "x.yaml:6: load.scenario: there is no manifest of the scenario 'poissn-50'; did you mean 'poisson-50'?",
    ]
    twice = problems(PLAIN + "load:\n  scenario: poisson-50\n  duration_s: 4\n")
    assert twice[0].startswith("x.yaml:5: load.duration_s: the scenario poisson-50@1.0.0 says it")
    assert "allowed are ^1.2" in problems(MODEL.replace("^1", "~=1") + LOAD)[0]
    assert "did you mean" in problems(PLAIN + LOAD + "stack: onnxruntim\n")[0]
    assert "unknown key" in problems(MODEL.replace("version", "framework") + LOAD)[0]
    assert "in quotes" in problems(MODEL.replace("^1", "1.0") + LOAD)[0]
    swept = problems(PLAIN + LOAD + "sweep:\n  stack:\n    - onnxruntime\n    - openvino@^9\n")
    assert swept == ["x.yaml:7: sweep.stack[1]: no version of the stack openvino fits '^9'; there are: 1.0.0"]


def test_a_submission_that_was_read_can_be_read_again() -> None:
    """As a form does; where a manifest is no longer what it was, it is refused."""
    document = json.loads(read(MODEL + LOAD).model_dump_json())
    again = read_submission_data(document, "again", INSTALLED)
    assert again == read(MODEL + LOAD)
    whole = MODEL + "stack: onnxruntime-batching@^1\nload: {scenario: poisson-50@~1.0, seed: 3}\n"
    swept = MODEL + LOAD + "sweep:\n  stack: [onnxruntime@^1, openvino]\n"
    for text in (whole, swept):
        first = read(text)
        assert read_submission_data(json.loads(first.model_dump_json()), "again", INSTALLED) == first
    document["manifests"][1]["digest"] = "0" * 64
    assert document["manifests"][1]["kind"] == "model"
    with pytest.raises(SubmissionError, match=r"digits@1\.1\.0 has the digest .* another one is given"):
        read_submission_data(document, "again", INSTALLED)


def test_a_models_file_must_have_the_manifests_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a manifest under ``configs/manifests``: there and right, changed, missing; a URL is not fetched."""
    folder = tmp_path / "configs"
    (folder / "manifests").mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(folder))
    digest = hashlib.sha256(b"a model").hexdigest()
    (folder / "manifests" / "mine.yaml").write_text(
        "kind: model\nname: mine\nversion: 1.0.0\nsources:\n  - {kind: url, url: 'https://example.org/m.onnx'}\n"
        f'  - {{kind: file, path: m.onnx, sha256: "{digest}"}}\n'
    )
    text = "name: x\nmodel: {kind: manifest, name: mine}\nrequests: {kind: random}\n" + LOAD
    told = problems(text, tmp_path)[0]
    assert told.startswith("x.yaml:2: model.name: the model mine@1.0.0 can't be had here")
    assert (
        "https://example.org/m.onnx is not fetched" in told
        and "m.onnx is not in the submission's folder" in told
    )
    (tmp_path / "m.onnx").write_bytes(b"another")
    assert f"the manifest says {digest[:12]}" in problems(text, tmp_path)[0]
    (tmp_path / "m.onnx").write_bytes(b"a model")
    model = read(text, tmp_path).model
    assert (model.kind, getattr(model, "path", None)) == ("file", "m.onnx")


def test_a_framework_that_is_not_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the versions there are, and where the backend runs, not where another one does."""
    folder = tmp_path / "configs"
    (folder / "manifests").mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(folder))
    stack = "kind: stack\nname: old\nversion: 1.0.0\nformat: onnx\nbackend: {0}\nframework: {1}\n"
    (folder / "manifests" / "old.yaml").write_text(stack.format("onnxruntime", "onnxruntime<1.1"))
    told = problems(PLAIN + LOAD + "stack: old\n")[0]
    assert "x.yaml:4: stack: needs onnxruntime<1.1: " in told and "there are: " in told
    (folder / "manifests" / "old.yaml").write_text(stack.format("onnxruntime", "mlserver"))
    assert "mlserver does not run in this environment" in problems(PLAIN + LOAD + "stack: old\n")[0]


def test_records_that_are_given_must_be_true() -> None:
    """Of another model, of a constraint as version, with another content, asked for otherwise: refused. A framework's
    record is made anew; where what needs it is not given, none stays.
    """
    adain = INSTALLED.manifests().manifest("model", "adain", "^1")
    true = {
        "kind": "model", "name": "adain", "asked": "adain@^1", "version": adain.version, "digest": adain.digest,
        "sets": {"model": INSTALLED.source_of(adain, None)},
    }  # fmt: skip
    framework = INSTALLED.manifests().framework_for("onnxruntime", "*", "onnxruntime")
    forged = {
        "kind": "framework",
        "name": "onnxruntime",
        "asked": "onnxruntime",
        "version": "9.9",
        "sets": {},
    }

    def given(*records: dict[str, Any]) -> Submission:
        data = {
            "name": "x", "model": {"kind": "zoo", "name": "digits"}, "manifests": list(records),
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
        }  # fmt: skip
        read = read_submission_data(data, "given", INSTALLED)
        assert isinstance(read, Submission)
        return read

    for change, told in (
        ({"sets": {}}, "is not what adain@1.1.0 puts into a submission"),
        ({"wanted_by": "stack:x@1.0.0"}, "is not what adain@1.1.0 puts into a submission"),
        ({"version": "9.9.9 || 1.1.0"}, "must be one version, as 1.1.0"),
        ({"asked": "digits@^1"}, "does not lead to adain@1.1.0"),
        ({"asked": "adain@^2"}, "does not lead to adain@1.1.0"),
        ({"digest": "0" * 64}, "another one is given"),
        (
            {"kind": "dataset", "name": "digits", "version": "1.0.0"},
            "no version of the data set digits that can be evaluated on fits '1.0.0'",
        ),
        ({"kind": "metric", "name": "digits"}, "a submission names model, scenario, stack, dataset"),
    ):
        with pytest.raises(SubmissionError) as caught:
            given({**true, **change})
        assert told in str(caught.value)
    (job,) = expand(given(true, {**forged, "digest": framework.digest, "wanted_by": "model:adain@1.1.0"}))
    assert names(job) == set()
    assert not any(record.version == "9.9" for record in job.spec.manifests)
    with pytest.raises(SubmissionError, match="only serving submissions name manifests"):
        read_submission_data({"kind": "training", "name": "x", "manifests": [true]}, "given", INSTALLED)


def test_manifests_are_looked_up_once_for_all_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names there are; more than a thousand are refused before any is resolved."""
    looked: list[Catalogue] = []

    def look() -> Catalogue:
        looked.append(known_here())
        return looked[-1]

    monkeypatch.setattr(abilities, "known_here", look)
    read(MODEL + LOAD + "sweep:\n  stack: [onnxruntime@^1, openvino, onnxruntime-batching@1]\n")
    assert len(looked) == 1
    monkeypatch.setattr(abilities.ManifestsHere, "manifest", lambda *_: pytest.fail("a name was resolved"))
    stacks = ", ".join(["onnxruntime"] * 501)
    told = problems(PLAIN + LOAD + f"sweep:\n  zip:\n    stack: [{stacks}]\n    load.scenario: [{stacks}]\n")
    assert told == ["x.yaml:4: sweep: names 1,002 manifests; at most 1,000 are allowed"]


def test_values_of_a_wrong_type_are_told_by_the_schema() -> None:
    """Where manifests would put something in, and in the list of records; nothing is resolved."""
    for text, field in (
        (MODEL + LOAD + "stack: onnxruntime\nserve: a\n", "serve"),
        (MODEL + LOAD + "stack: onnxruntime\nconvert: 5\n", "convert"),
        (MODEL + LOAD + "manifests: null\n", "manifests"),
        (MODEL + LOAD + "manifests: 5\n", "manifests"),
        (PLAIN + "load: x\nsweep: {load.scenario: [offline]}\n", "load"),
        (MODEL + LOAD + "manifests: [5, {kind: [model]}]\n", "manifests[0]"),
        (MODEL + LOAD + "sweep: {stack: [onnxruntime], zip: 0}\n", "sweep.zip"),
    ):
        assert any(f": {field}: " in told for told in problems(text)), text


def test_a_zip_of_a_stack_and_of_what_it_says_is_refused() -> None:
    """One would take the other's place without a word."""
    told = problems(
        PLAIN + LOAD + "sweep:\n  zip:\n    stack: [onnxruntime]\n    serve: [{backend: openvino}]\n"
    )
    assert told == ["x.yaml:6: sweep.zip.stack: overlaps with serve, which is swept too; sweep one of them"]


def test_the_next_source_is_taken_where_the_model_repository_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a PerfDB there is no repository; where nothing else is named, the reason is told."""
    folder = tmp_path / "configs"
    (folder / "manifests").mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(folder))
    text = "kind: model\nname: mine\nversion: 1.0.0\nsources:\n  - {kind: registry, name: ours, version: 2}\n"
    (folder / "manifests" / "mine.yaml").write_text(text)
    submission = "name: x\nmodel: {kind: manifest, name: mine}\n" + LOAD
    assert "ours is a model of the model repository, and there is no PerfDB here" in problems(submission)[0]
    built_in = "  - {kind: built_in, model: {kind: zoo, name: digits}}\n"
    (folder / "manifests" / "mine.yaml").write_text(text + built_in)
    assert getattr(read(submission).model, "kind", None) == "zoo"
