"""The ``submit`` DAG and those of what was submitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.submit.notes import note_of
from inferbench_tasks.provider.submit.request import SubmissionRequest, resolve
from inferbench_tasks.provider.submit.shelf import Shelf

pytestmark = pytest.mark.airflow
TEXT = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 10}}\n"


def place(data_dir: Path, text: str = TEXT) -> str:
    return Shelf(data_dir).place(resolve(SubmissionRequest(submission=text), data_dir))


def test_what_was_submitted_becomes_a_dag_with_its_stages(tmp_path: Path) -> None:
    """Each job's stages and ``analyze``, ``release`` the teardown of ``serve``; it survives serialisation."""
    from airflow.serialization.serialized_objects import DagSerialization

    from inferbench_tasks.pipelines.serving import SERVING
    from inferbench_tasks.provider.submit.dag import load_submit

    dag_id = place(tmp_path, TEXT + "sweep: {serve.threads: [1, 2]}\n")
    dags = load_submit(tmp_path, tmp_path)
    assert set(dags) == {"submit", dag_id}
    tasks = {t.split(".")[-1] for t in dags[dag_id].task_ids}
    assert tasks == {entry.name for entry in SERVING.entries if entry.facts.block in (None, "load")}
    assert dags[dag_id].get_task("job-001.release").is_teardown
    for dag in dags.values():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert set(again.task_ids) == set(dag.task_ids)


def test_the_same_submission_is_the_same_dag(tmp_path: Path) -> None:
    """Submitted twice, it is one DAG with two runs; another priority is another submission."""
    assert place(tmp_path) == place(tmp_path) != place(tmp_path, TEXT + "priority: 3\n")
    assert len(Shelf(tmp_path).recent()) == 2


def test_the_form_is_checked_before_a_run_exists() -> None:
    """Airflow refuses what the form's schema excludes; text of many lines and data both pass."""
    from airflow.sdk.exceptions import ParamValidationError

    from inferbench_tasks.provider.submit.dag import parameters

    form = parameters(Path(__file__).parents[4] / "configs" / "submissions")
    assert "quickstart" in form["name"].schema["examples"]
    for good in (TEXT, {"name": "x"}, None):
        assert form["submission"].resolve(good) == good
    for field, bad in (("priority", 101), ("priority", "high"), ("p99_ms", 0), ("submission", 3)):
        with pytest.raises(ParamValidationError):
            form[field].resolve(bad)


def test_a_refused_submission_says_why_in_its_note() -> None:
    """Line, field and message of each problem, within what Airflow's column holds."""
    problem = {"file": "submission", "line": 3, "field": "lod", "message": "unknown key"}
    text, task = note_of({"problems": [problem]})
    assert task == "validate" and "line 3: lod: unknown key" in text
    assert len(note_of({"problems": [problem] * 100})[0]) <= 1000
    text, task = note_of({"outcome": {"verdicts": {"r.000": "valid"}, "invocation": "r"}})
    assert task == "outcome" and text.startswith("[Report](/inferbench/report/r)")
    assert text.endswith("\n\nr.000: valid")
    assert note_of({}) == ("", "")


def test_a_file_that_is_valid_no_longer_hides_no_other(tmp_path: Path) -> None:
    """One of an older version, or cut off: an import error of its own; the form and the other submissions are there."""
    from inferbench_tasks.provider.loader import BrokenSubmission
    from inferbench_tasks.provider.submit.dag import load_submit

    good, shelf = place(tmp_path), Shelf(tmp_path)
    shelf.path("submitted.old.12345678").write_text(
        '{"submission": {"name": "old", "gone": 1}, "base_dir": "/"}'
    )
    dags = load_submit(tmp_path, tmp_path)
    assert {"submit", good} <= set(dags)
    broken = [dag for dag in dags.values() if isinstance(dag, BrokenSubmission)]
    assert [Path(str(dag.relative_fileloc)).name for dag in broken] == ["submitted.old.12345678.json"]


@pytest.mark.parametrize("content", ["", "{", "[" * 100_000, "null", "{}", "a" * 8_000_001, "\0", "1" * 5000])
def test_a_hostile_file_hides_no_other(tmp_path: Path, content: str) -> None:
    """Whatever lies on the shelf, it is recorded under its own file, in few words; the other becomes a DAG."""
    from inferbench_tasks.provider.loader import BrokenSubmission
    from inferbench_tasks.provider.submit.dag import load_submit

    good, shelf = place(tmp_path), Shelf(tmp_path)
    shelf.path("submitted.bad.12345678").write_text(content)
    shelf.path("submitted.away.12345678").symlink_to(tmp_path / "nothing")
    dags = load_submit(tmp_path, tmp_path)
    assert set(dags) == {"submit", good, "broken submitted.bad.12345678"}
    broken = dags["broken submitted.bad.12345678"]
    assert isinstance(broken, BrokenSubmission)
    with pytest.raises(InputError) as caught:
        broken.get_serialized_fields()
    assert len(str(caught.value)) <= 4000


def test_a_submission_that_can_not_be_rendered_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of any kind while its DAG is made is recorded as its own; the others become DAGs."""
    from inferbench_tasks.provider.loader import BrokenSubmission
    from inferbench_tasks.provider.render import render
    from inferbench_tasks.provider.submit import dag

    good, bad = place(tmp_path), place(tmp_path, TEXT.replace("quick", "bad"))

    def failing(submission: Any, **how: Any) -> Any:
        if submission.name == "bad":
            raise RecursionError("too deep")
        return render(submission, **how)

    monkeypatch.setattr(f"{dag.__name__}.render", failing)
    dags = dag.load_submit(tmp_path, tmp_path)
    assert good in dags and bad not in dags
    assert isinstance(dags[f"broken {bad}"], BrokenSubmission)
