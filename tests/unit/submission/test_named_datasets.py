"""Data sets that a submission names by their manifests: ``evaluate: {dataset: words@^1}``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.manifests.built_in.datasets import named_dataset
from inferbench_tasks.manifests.catalogue import BUILT_IN, PERFDB, Catalogue, Entry
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.manifests.lock import planned
from inferbench_tasks.stages.generate import evaluation_settings
from inferbench_tasks.submission.manifest_record import ManifestRecord, of_job
from inferbench_tasks.submission.reader import read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import Job, expand

pytestmark = pytest.mark.usefixtures("data_dir")
HEAD = "name: x\nmodel: {kind: zoo, name: digits}\n"


def read(text: str) -> Submission:
    submission = read_submission_text(HEAD + text, "x.yaml", INSTALLED)
    assert isinstance(submission, Submission)
    return submission


def jobs(text: str) -> list[Job[Any]]:
    return expand(read(text))


def problems(text: str) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def own(name: str) -> DatasetManifest:
    manifest = named_dataset(name)
    assert manifest is not None
    return manifest


def records(spec: JobSpec) -> list[ManifestRecord]:
    return of_job(spec.manifests, spec.model_dump(mode="json"))


def test_the_job_is_that_of_the_bare_name_and_its_lock_has_the_version() -> None:
    """The version that is here, with its SHA-256. A bare name is resolved to nothing, as before."""
    (named,), (bare,) = jobs("evaluate: {dataset: digits@^1}\n"), jobs("evaluate: {dataset: digits}\n")
    assert named.digest == bare.digest and named.job_id == bare.job_id
    assert named.spec.evaluate == bare.spec.evaluate and bare.spec.manifests == ()
    manifest = own("digits")
    (record,) = planned(named.spec)["manifests"]
    assert record == {
        "kind": "dataset", "name": "digits", "asked": "digits@^1", "version": manifest.version,
        "digest": manifest.digest, "wanted_by": "",
    }  # fmt: skip
    assert planned(bare.spec)["manifests"] == []
    assert [job.spec.manifests[0].asked for job in jobs("evaluate: {dataset: digits>=1.1 <2}\n")] == [
        "digits>=1.1 <2"
    ]


@pytest.mark.parametrize(
    "sweep",
    [
        "evaluate.dataset: [{0}], serve.threads: [1]",
        "evaluate: [{{dataset: {1}}}, {{dataset: {2}}}]",
        "zip: {{evaluate.dataset: [{0}], serve.threads: [1, 2]}}",
        "zip: [{{evaluate: [{{dataset: {1}}}, {{dataset: {2}}}], serve.threads: [1, 2]}}]",
    ],
)
def test_names_are_swept_in_their_place(sweep: str) -> None:
    """In a grid, a zip and whole sections; the jobs are those of the bare names, in their order, and each has its own
    record."""
    named, bare = (
        jobs(f"evaluate: {{}}\nsweep: {{{sweep.format(', '.join(names), *names)}}}\n")
        for names in (("digits@^1", "digits-png@*"), ("digits", "digits-png"))
    )
    assert [job.digest for job in named] == [job.digest for job in bare]
    assert [[record.id for record in records(job.spec)] for job in named] == [
        [own(name).id] for name in ("digits", "digits-png")
    ]


def test_what_no_version_meets_has_its_line_and_the_versions_that_there_are() -> None:
    """A constraint that nothing meets, a version of which there is a manifest alone, an unknown name, data of the
    user's, what is no constraint; under sweep, too."""
    version = own("words").version
    assert problems("evaluate:\n  samples: 9\n  dataset: words@^9\n") == [
        f"x.yaml:5: evaluate.dataset: no version of the data set words that can be evaluated on fits '^9'; there are: "
        f"{version}"
    ]
    assert problems("evaluate: {dataset: digits@1.0.0}\n") == [
        "x.yaml:3: evaluate.dataset: no version of the data set digits that can be evaluated on fits '1.0.0'; there "
        f"are: {own('digits').version}; of 1.0.0 there is a manifest, and no samples"
    ]
    (unknown,) = problems("evaluate: {dataset: wrods@^1}\n")
    assert unknown.startswith("x.yaml:3: evaluate.dataset: unknown data set 'wrods'; did you mean 'words'?")
    (none,) = problems("evaluate: {dataset: folder@^1, path: photographs}\n")
    assert none.startswith("x.yaml:3: evaluate.dataset: the data set folder has no manifest")
    record = "{kind: dataset, name: words, version: not a version, asked: words@^1, digest: abc}"
    (given,) = problems(f"evaluate: {{dataset: words}}\nmanifests: [{record}]\n")
    assert given.startswith("x.yaml:4: manifests[0]") and "no constraint" in given
    assert "allowed are ^1.2" in problems("evaluate: {dataset: words@~=1}\n")[0]
    assert "NAME@^1.2" in problems("evaluate: {dataset: words@}\n")[0]
    swept = problems("evaluate: {}\nsweep:\n  evaluate.dataset:\n    - words\n    - words@^9\n")
    assert [problem.partition(": no version")[0] for problem in swept] == [
        "x.yaml:7: sweep.evaluate.dataset[1]"
    ]
    zipped = "evaluate: {}\nsweep:\n  zip:\n    evaluate:\n      - {dataset: digits}\n      - {dataset: words@^9}\n"
    assert [problem.partition(": no version")[0] for problem in problems(zipped)] == [
        "x.yaml:8: sweep.zip.evaluate[1].dataset"
    ]


def test_what_is_allowed_is_a_name_with_a_constraint_or_without() -> None:
    """Where something else stands the message says so, as the reference does."""
    (problem,) = problems("evaluate: {dataset: 5}\n")
    assert problem.startswith("x.yaml:3: evaluate.dataset") and "a name (letters, digits" in problem
    assert "or one with a constraint on the version of its manifest (such as words@^1)" in problem


def test_a_submission_that_was_read_can_be_read_again() -> None:
    """As a form does; with another digest, or put elsewhere, it is refused."""
    for text in (
        "evaluate: {dataset: digits@^1}\n", "evaluate: {}\nsweep: {evaluate.dataset: [digits@^1, digits-png@1]}\n",
    ):  # fmt: skip
        first = read(text)
        assert read_submission_data(json.loads(first.model_dump_json()), "again", INSTALLED) == first
    document = json.loads(read("evaluate: {dataset: digits@^1}\n").model_dump_json())
    for change, told in (
        ({"digest": "0" * 64}, "another one is given"),
        ({"sets": {"evaluate": {"dataset": "words"}}}, "is not what digits@"),
        ({"version": "1.0.0"}, "that can be evaluated on fits '1.0.0'"),
        ({"name": "folder", "asked": "folder"}, "has no manifest"),
    ):
        changed = {**document, "manifests": [{**document["manifests"][0], **change}]}
        with pytest.raises(SubmissionError, match=told):
            read_submission_data(changed, "again", INSTALLED)


def test_too_many_names_are_refused() -> None:
    """As of all manifests, before any is looked up."""
    many = ", ".join(["digits@^1"] * 1001)
    assert problems(f"evaluate: {{}}\nsweep: {{evaluate.dataset: [{many}]}}\n") == [
        "x.yaml:4: sweep: names 1,001 manifests; at most 1,000 are allowed"
    ]


def test_a_version_that_is_in_conflict_is_refused() -> None:
    """Somebody had put other content into PerfDB under the version that is here."""
    ours = own("words")
    theirs = ours.model_copy(update={"description": "other words"})
    both = Catalogue([Entry(ours, BUILT_IN), Entry(theirs, PERFDB)])
    with pytest.raises(InputError, match="is in conflict"):
        both.dataset_for("words", "^1")
    assert Catalogue([Entry(ours, BUILT_IN)]).dataset_for("words", "^1").digest == ours.digest


def test_who_runs_it_with_other_samples_than_it_was_read_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with another release, whose data set is another version, or has no manifest: before anything is taken
    from a cache. Whoever asked by the bare name is not concerned."""
    (named,), (bare,) = jobs("evaluate: {dataset: digits@^1}\n"), jobs("evaluate: {dataset: digits}\n")

    def settings(job: Job[Any]) -> dict[str, Any]:
        model: Any = SimpleNamespace(digest="0" * 64, name="digits")
        inp: Any = SimpleNamespace(job=job.spec)
        return evaluation_settings(inp, model, tmp_path)

    assert settings(named) == settings(bare)
    later = own("digits").model_copy(update={"version": "1.9.0"})
    for there, words in ((later, r"dataset:digits@1\.9\.0"), (None, "one without a manifest")):
        monkeypatch.setattr(
            "inferbench_tasks.manifests.built_in.datasets.named_dataset", lambda _, there=there: there
        )
        assert settings(bare)["dataset"] == "digits"
        with pytest.raises(InputError, match=rf"digits@\^1 is dataset:digits@.* where .* read, and {words}"):
            settings(named)
