"""Versions of runtimes that a submission names: what they lead to, which jobs they make, and what is refused."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import Job, expand
from tests.unit.submission.test_named_manifests import LOAD, PLAIN, jobs, names, problems, read

pytestmark = pytest.mark.usefixtures("data_dir")
OLD = "onnxruntime@1.27.0"
INSTALLED_VERSION = version("onnxruntime")


def frameworks(text: str) -> list[str | None]:
    return [job.spec.serve.framework for job in jobs(text)]


def test_two_versions_are_two_jobs_of_one_submission() -> None:
    """The exact version stands in each, and in its record; the one that names none is the job of before."""
    made = jobs(PLAIN + LOAD + "sweep: {serve.framework: [null, onnxruntime@~1.27, onnxruntime]}\n")
    assert [job.spec.serve.framework for job in made] == [None, OLD, f"onnxruntime@{INSTALLED_VERSION}"]
    assert made[0].digest == jobs(PLAIN + LOAD)[0].digest
    assert len({job.digest for job in made}) == 3
    assert [names(job) for job in made] == [
        set(), {"framework:onnxruntime@1.27.0"}, {f"framework:onnxruntime@{INSTALLED_VERSION}"},
    ]  # fmt: skip
    assert made[1].digest == jobs(PLAIN + LOAD + "serve: {framework: onnxruntime>=1.27 <1.28}\n")[0].digest


def test_its_environment_is_made_before_the_job_has_a_device() -> None:
    """A stage of its own between the conversion and the server; jobs that name no version have none."""
    text = PLAIN + LOAD + "sweep: {serve.framework: [null, onnxruntime@~1.27]}\n"
    plan = compile_plan(read_submission_text(text, "x.yaml", INSTALLED))
    stages = [[node.stage for node in plan.nodes if node.job_index == index] for index in (0, 1)]
    assert "runtime" not in stages[0]
    assert stages[1][:4] == ["generate", "convert", "runtime", "serve"]
    (node,) = [node for node in plan.nodes if node.stage == "runtime"]
    assert node.lease is None


def test_names_stand_in_sections_and_columns_of_a_sweep() -> None:
    """In ``serve`` itself, in swept sections, and in a zip."""
    assert frameworks(PLAIN + LOAD + "serve: {framework: onnxruntime@1.27.x}\n") == [OLD]
    assert frameworks(PLAIN + LOAD + "sweep: {serve: [{framework: onnxruntime~1.27}, {threads: 2}]}\n") == [
        OLD,
        None,
    ]
    zipped = "sweep: {zip: {serve.framework: [onnxruntime~1.27, null], serve.threads: [1, 2]}}\n"
    assert frameworks(PLAIN + LOAD + zipped) == [OLD, None]


@pytest.mark.parametrize(
    "more",
    [
        "serve: {framework: onnxruntime@~1.27}\n",
        "sweep: {serve.framework: [null, onnxruntime@~1.27, onnxruntime]}\n",
        "stack: onnxruntime@^1\nserve: {framework: onnxruntime@~1.27}\n",
    ],
)
def test_what_was_read_can_be_read_again(more: str) -> None:
    """With the same records, and how each version was asked for."""
    first = read(PLAIN + LOAD + more)
    assert read_submission_data(json.loads(first.model_dump_json()), "again", INSTALLED) == first
    assert "onnxruntime@~1.27" in {record.asked for record in first.manifests}


def test_what_is_wrong_has_its_line_and_what_there_is() -> None:
    """A version that nothing has, an unknown runtime, a malformed constraint; what it can't go with."""
    told = problems(PLAIN + LOAD + "sweep:\n  serve.framework:\n    - null\n    - onnxruntime@~1.2\n")
    assert told == [
        "x.yaml:7: sweep.serve.framework[1]: no version of the framework onnxruntime fits '~1.2'; there are: "
        f"{INSTALLED_VERSION}, 1.27.0"
    ]
    assert (
        "did you mean 'onnxruntime'?" in problems(PLAIN + LOAD + "serve:\n  framework: onnxruntim@~1.27\n")[0]
    )
    malformed = problems(PLAIN + LOAD + "serve:\n  framework: onnxruntime@~=1\n")
    assert malformed[0].startswith("x.yaml:5: serve.framework: ") and "allowed are ^1.2" in malformed[0]
    for serve, message in (
        (
            "{framework: onnxruntime@~1.27, backend: openvino}",
            "the backend openvino runs in the version that is here",
        ),
        (
            "{framework: openvino, backend: onnxruntime}",
            "the backend onnxruntime runs onnxruntime; it is openvino",
        ),
        ("{framework: onnxruntime@~1.27, launcher: container}", "an image brings its own version"),
        ("{framework: onnxruntime@~1.27, device: gpu}", "other versions run on CPUs only"),
    ):
        text = PLAIN + LOAD + "convert: {format: onnx}\nserve:\n  " + serve + "\n"
        assert any("serve.framework" in told and message in told for told in problems(text)), problems(text)
    shared = "share: {beside: [{model: {kind: zoo, name: lstm}}]}\nserve: {framework: onnxruntime@~1.27}\n"
    assert any("models that share a device" in told for told in problems(PLAIN + LOAD + shared))
    bricks = "kind: bricks\nname: x\nmodels: [{model: {kind: zoo, name: digits}}]\nserve: {framework: onnxruntime}\n"
    assert problems(bricks) == ["x.yaml:4: serve.framework: unknown key; allowed: device"]


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes the stack ``old`` with that requirement under ``configs/manifests``."""
    folder = tmp_path / "configs" / "manifests"
    folder.mkdir(parents=True)
    monkeypatch.setenv("INFERBENCH_CONFIG_DIR", str(tmp_path / "configs"))

    def write(framework: str) -> None:
        (folder / "old.yaml").write_text(
            f"kind: stack\nname: old\nversion: 1.0.0\nformat: onnx\nbackend: onnxruntime\nframework: {framework}\n"
        )

    return write


def test_a_stack_that_needs_an_older_version_brings_it(stack: Any) -> None:
    """Beside one that runs with what is installed; the records of each job are those of its own stack."""
    stack("onnxruntime~1.27")
    made: list[Job[Any]] = jobs(PLAIN + LOAD + "sweep: {stack: [onnxruntime@^1, old]}\n")
    assert [job.spec.serve.framework for job in made] == [None, OLD]
    assert names(made[0]) == {"stack:onnxruntime@1.0.0", f"framework:onnxruntime@{INSTALLED_VERSION}"}
    assert names(made[1]) == {"stack:old@1.0.0", "framework:onnxruntime@1.27.0"}
    first = read(PLAIN + LOAD + "stack: old\n")
    assert read_submission_data(json.loads(first.model_dump_json()), "again", INSTALLED) == first
    told = problems(PLAIN + LOAD + "stack: old\nserve: {framework: onnxruntime}\n")
    assert any("serve.framework: the stack old@1.0.0 says it" in each for each in told)


def test_a_stack_in_a_container_of_the_submissions_brings_no_version_of_its_own(stack: Any) -> None:
    """The image does: what is refused is that nobody says which one it has."""
    stack("onnxruntime~1.27")
    (told,) = problems(PLAIN + LOAD + "stack: old\nserve: {launcher: container}\n")
    assert "stack: needs onnxruntime~1.27: no manifest says which version" in told


def test_a_version_that_the_stack_can_not_do_with_is_refused(stack: Any) -> None:
    """At the version, whether it stands in ``serve`` or under ``sweep``; one that it can do with takes its place."""
    stack("onnxruntime>=1.28")
    told = problems(PLAIN + LOAD + "stack: old\nsweep:\n  serve.framework: [null, onnxruntime@~1.27]\n")
    assert told == [
        "x.yaml:6: sweep.serve.framework[1]: is 1.27.0, and the stack old@1.0.0 needs onnxruntime>=1.28"
    ]
    stack("onnxruntime>=1.20")
    (job,) = jobs(PLAIN + LOAD + "stack: old\nserve: {framework: onnxruntime@~1.27}\n")
    assert job.spec.serve.framework == OLD
    assert names(job) == {"stack:old@1.0.0", "framework:onnxruntime@1.27.0"}


def test_records_of_versions_that_are_given_must_be_true() -> None:
    """One that was asked for otherwise, or that nothing names, is left out: records of frameworks are made anew."""
    document = json.loads(read(PLAIN + LOAD + "serve: {framework: onnxruntime@~1.27}\n").model_dump_json())
    document["manifests"][0]["asked"] = "onnxruntime@~1.31"
    again = read_submission_data(document, "again", INSTALLED)
    assert isinstance(again, Submission)
    assert [(record.asked, record.version) for record in again.manifests] == [(OLD, "1.27.0")]
    document["serve"]["framework"] = None
    assert not expand(read_submission_data(document, "again", INSTALLED))[0].spec.manifests
    document["serve"]["framework"] = "onnxruntime@9.9.9"
    with pytest.raises(SubmissionError, match=r"no version of the framework onnxruntime fits '9\.9\.9'"):
        read_submission_data(document, "again", INSTALLED)
