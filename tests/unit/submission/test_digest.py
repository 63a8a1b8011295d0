"""The canonical digest: equal for the same measurement, different for any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.submission.base import SubmissionBase
from inferbench_tasks.submission.digest import LABELS, PATIENCE, job_digest
from inferbench_tasks.submission.files import changed_files, content_digests
from inferbench_tasks.submission.reader import read_submission, read_submission_data, read_submission_text
from inferbench_tasks.submission.schema import JobSpec, Submission
from inferbench_tasks.submission.sweep import expand
from tests.unit.submission.strategies import submissions

BASE: dict[str, Any] = {
    "name": "digest",
    "model": {"kind": "canonical", "family": "mlp"},
    "load": {"arrivals": {"kind": "poisson", "rate_rps": 50}},
}


def submission_digest(submission: SubmissionBase) -> str:
    return compile_plan(submission).submission_digest


def digest(**more: Any) -> str:
    return submission_digest(Submission.model_validate({**BASE, **more}))


def _shuffled(value: Any, draw: Any) -> Any:
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        return {key: _shuffled(value[key], draw) for key in keys}
    return value


@settings(max_examples=60, deadline=None)
@given(submissions(), st.data())
def test_the_spelling_does_not_count(data: dict[str, Any], chance: st.DataObject) -> None:
    """Order of keys, defaults written or not, YAML's block or flow style, JSON: one digest."""
    submission = Submission.model_validate(data)
    expected = submission_digest(submission)
    other = _shuffled(data, chance.draw)
    block = yaml.safe_dump(other, sort_keys=False, default_flow_style=False, allow_unicode=True)
    flow = yaml.safe_dump(other, sort_keys=False, default_flow_style=True, allow_unicode=False)
    for text in (block, flow, submission.model_dump_json()):
        assert submission_digest(read_submission_text(text, "x.yaml", INSTALLED)) == expected
    assert (
        submission_digest(read_submission_data(submission.model_dump(mode="json"), "request", INSTALLED))
        == expected
    )


@settings(max_examples=40, deadline=None)
@given(submissions(), st.data())
def test_labels_do_not_count(data: dict[str, Any], chance: st.DataObject) -> None:
    """Another name, user, description, tag, priority or deadline asks for the same measurement."""
    labelled = {
        **data, "name": "other", "user": "somebody", "description": "else", "tags": ["t"],
        "priority": chance.draw(st.integers(-100, 100)), "deadline_s": 80_000, "expected_duration_s": 80_000,
        "block": 3, "nightly": {"bisect": True}, "on_devices": ["cpu-0"],
    }  # fmt: skip
    assert set(labelled) >= LABELS
    assert submission_digest(Submission.model_validate(labelled)) == submission_digest(
        Submission.model_validate(data)
    )


def _leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    return [path]


FULL = JobSpec.model_validate(
    {**BASE, "serve": {"batching": {}}, "slo": {"latency_p99_ms": 9, "min_throughput_rps": 1}}
)
#: ``files`` counts where a job replays one of them: see below. Of ``systems`` what was chosen counts (``system``).
WAITING = {("load", name) for name in PATIENCE}
MEASURED = [
    leaf for leaf in _leaves(FULL.model_dump(mode="json"))
    if leaf[0] not in {*LABELS, "files", "manifests", "systems"} and leaf not in WAITING
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("leaf", MEASURED, ids=".".join)
def test_every_other_field_counts(leaf: tuple[str, ...]) -> None:
    """A change of any field that is no label changes the digest; a new field is covered by itself."""
    changed = FULL.model_dump(mode="json")
    place = changed
    for key in leaf[:-1]:
        place = place[key]
    place[leaf[-1]] = "changed" if place[leaf[-1]] != "changed" else "else"
    assert job_digest(JobSpec.model_construct(**changed)) != job_digest(FULL)


def test_how_long_a_load_waits_for_a_quiet_machine_does_not_count() -> None:
    """Like a priority it says when to begin: a job keeps the digest that it had before there was the field."""
    for limit_s in (0, 5, 600):
        patient = JobSpec.model_validate(
            {**FULL.model_dump(), "load": {**FULL.traffic.model_dump(), "wait_for_quiet_s": limit_s}}
        )
        assert job_digest(patient) == job_digest(FULL)
    assert all(place in _leaves(FULL.model_dump(mode="json")) for place in WAITING)


def test_the_usual_time_until_a_server_is_ready_may_be_left_out() -> None:
    """Jobs keep the digest of when 120 s was every backend's; another time is another job."""
    plain = FULL.model_dump()

    def digest(timeout_s: float | None) -> str:
        serve = {**plain["serve"], "ready_timeout_s": timeout_s}
        return job_digest(JobSpec.model_validate({**plain, "serve": serve}))

    assert digest(None) == digest(120.0) != digest(121.0)


def test_one_value_in_several_forms_is_one() -> None:
    """50, 50.0 and 5e1; 0.0 and -0.0."""
    text = (
        "name: x\n"
        "model: {kind: zoo, name: digits}\n"
        "load: {arrivals: {kind: poisson, rate_rps: RATE}, warmup_s: ZERO}\n"
    )
    found = {
        submission_digest(
            read_submission_text(text.replace("RATE", rate).replace("ZERO", zero), "x", INSTALLED)
        )
        for rate in ("50", "50.0", "5e1", "+50", "50.")
        for zero in ("0", "0.0", "-0.0", "-0")
    }
    assert len(found) == 1


def test_the_way_a_sweep_is_written_does_not_count() -> None:
    """Order of keys and values, a grid or zipped rows, base values that are replaced: the set of jobs counts."""
    grid = digest(sweep={"serve.threads": [1, 2], "load.seed": [3]})
    assert grid == digest(sweep={"load.seed": [3], "serve.threads": [2, 1]})
    assert grid == digest(sweep={"load.seed": [3], "zip": {"serve.threads": [1, 2]}})
    assert grid == digest(sweep={"serve.threads": [1, 2]}, load={**BASE["load"], "seed": 3})
    assert grid == digest(sweep={"serve.threads": [1, 2], "load.seed": [3]}, serve={"threads": 9})
    assert grid != digest(sweep={"serve.threads": [1, 2, 4], "load.seed": [3]})


def test_a_sweep_of_one_value_is_no_sweep() -> None:
    """One job is one job."""
    assert digest(sweep={"serve.threads": [4]}) == digest(serve={"threads": 4})


def test_a_digest_is_the_same_in_another_process() -> None:
    """Nothing of the process (the seed of its hashes, for one) goes into it."""
    program = (
        "import sys; from inferbench_tasks.plan.compile import compile_plan;"
        "from inferbench_tasks.submission.schema import Submission;"
        "print(compile_plan(Submission.model_validate_json(sys.argv[1])).submission_digest)"
    )
    submission = Submission.model_validate({**BASE, "sweep": {"serve.threads": [1, 2]}})
    done = subprocess.run(
        [sys.executable, "-c", program, submission.model_dump_json()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == submission_digest(submission)
    assert len(done.stdout.strip()) == 64


TRACE = "load: {arrivals: {kind: trace, path: t.csv}}\n"
HEAD = "name: x\nmodel: {kind: canonical, family: mlp}\n"


def _read(folder: Path, text: str, content: str = "TIMESTAMP\n0\n1\n") -> SubmissionBase:
    (folder / "t.csv").write_text(content)
    (folder / "x.yaml").write_text(text)
    return read_submission(folder / "x.yaml", INSTALLED)


def test_a_trace_counts_with_its_content(tmp_path: Path) -> None:
    """Two contents under one path are two jobs with two ids; the same content is the same job, read or replayed."""
    first = _read(tmp_path, HEAD + TRACE)
    other = _read(tmp_path, HEAD + TRACE, "TIMESTAMP\n0\n2\n")
    again = _read(tmp_path, HEAD + TRACE)
    assert submission_digest(first) == submission_digest(again) != submission_digest(other)
    assert expand(first)[0].job_id == expand(again)[0].job_id != expand(other)[0].job_id
    # What travels to the stages carries it along.
    assert submission_digest(Submission.model_validate_json(first.model_dump_json())) == submission_digest(
        first
    )


def test_each_trace_of_a_sweep_counts_for_its_own_job(tmp_path: Path) -> None:
    """A change of one file leaves the other's job as it was."""
    (tmp_path / "u.csv").write_text("TIMESTAMP\n0\n5\n")
    text = HEAD + TRACE + "sweep: {load.arrivals.path: [t.csv, u.csv]}\n"
    before = [job.digest for job in expand(_read(tmp_path, text))]
    after = [job.digest for job in expand(_read(tmp_path, text, "TIMESTAMP\n0\n3\n"))]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_a_file_is_no_part_of_a_job_that_does_not_replay_it() -> None:
    """Whatever stands in ``files``: a Poisson load is the same."""
    assert digest(files={"t.csv": "0" * 64}) == digest()


def test_a_trace_that_was_asked_for_by_digest_must_have_it(tmp_path: Path) -> None:
    """``files`` in the YAML pins a content; another one is refused, with both digests."""
    with pytest.raises(SubmissionError, match="has another content than the one asked for"):
        _read(tmp_path, HEAD + TRACE + f"files: {{t.csv: {'a' * 64}}}\n")


def test_a_trace_that_changed_since_is_found(tmp_path: Path) -> None:
    """Between the submission and the load: the job says which content it means."""
    job = expand(_read(tmp_path, HEAD + TRACE))[0].spec
    assert not list(changed_files(job, content_digests([job], tmp_path)))
    (tmp_path / "t.csv").write_text("TIMESTAMP\n0\n9\n")
    (finding,) = changed_files(job, content_digests([job], tmp_path))
    assert "another measurement" in finding.message


def test_overload_that_is_asked_for_is_another_measurement_and_its_absence_changes_nothing() -> None:
    """``load.expect`` is hashed only where it is set, so that no digest of before it changes."""

    def digest(**load: Any) -> str:
        return job_digest(
            JobSpec.model_validate({**FULL.model_dump(), "load": {**FULL.traffic.model_dump(), **load}})
        )

    assert digest(expect=None) == job_digest(FULL)
    assert digest(expect="overload") != job_digest(FULL)
