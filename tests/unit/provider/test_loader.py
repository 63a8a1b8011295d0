"""The submissions folder as DAGs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.airflow
GOOD = """
name: NAME
model: {kind: zoo, name: digits}
load: {arrivals: {kind: poisson, rate_rps: 10}}
sweep: {serve.threads: [1]}
"""
LOADER = Path(__file__).parents[3] / "dags" / "submissions.py"


def process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[set[str], dict[str, str]]:
    """What Airflow's dag-processor makes of the loader: DAG ids, and import errors by path."""
    import structlog
    from airflow.dag_processing.dagbag import DagBag
    from airflow.dag_processing.processor import _serialize_dags

    monkeypatch.setenv("INFERBENCH_SUBMISSIONS_DIR", str(folder))
    dags = folder.parent / "dags"
    dags.mkdir(exist_ok=True)
    shutil.copy(LOADER, dags / "submissions.py")
    bag = DagBag(dag_folder=dags / "submissions.py", bundle_path=dags, bundle_name="dags-folder")
    serialised, errors = _serialize_dags(bag, structlog.get_logger())
    return {dag.dag_id for dag in serialised}, {**bag.import_errors, **errors}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "submissions"
    path.mkdir()
    return path


def test_a_broken_file_hides_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each good YAML is a DAG; the broken one is an import error of its own, with its problem."""
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(GOOD.replace("NAME", name))
    (folder / "broken.yaml").write_text(GOOD.replace("NAME", "c") + "extra: 1\n")
    dags, errors = process(folder, monkeypatch)
    assert dags == {"a", "b"}
    assert list(errors) == [str(folder / "broken.yaml")]
    assert "extra" in errors[str(folder / "broken.yaml")]


def test_two_files_can_t_share_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second file of a name is an import error that names the first."""
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(GOOD.replace("NAME", "same"))
    dags, errors = process(folder, monkeypatch)
    assert dags == {"same"}
    assert f"taken by {folder / 'a.yaml'}" in errors[str(folder / "b.yaml")]


def test_200_files_give_200_dags(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A team's whole folder is loaded from the one file."""
    for number in range(200):
        (folder / f"s{number}.yaml").write_text(GOOD.replace("NAME", f"s{number}"))
    dags, errors = process(folder, monkeypatch)
    assert len(dags) == 200
    assert errors == {}


def test_a_file_that_asks_for_systems_is_a_dag_that_submits_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which they are is decided when it is started: it has no jobs before, and needs no device to be read. One whose
    form is wrong is an import error; two files can't share a name, whichever kind they are.
    """
    from inferbench_tasks.provider.loader import load_submissions
    from inferbench_tasks.provider.submit.dag import by_file

    alone = GOOD.replace("sweep: {serve.threads: [1]}\n", "systems: {arch: x86_64}\n")
    (folder / "below").mkdir()
    (folder / "a.yaml").write_text(GOOD.replace("NAME", "a"))
    (folder / "below" / "b.yaml").write_text(alone.replace("NAME", "b"))
    (folder / "c.yaml").write_text(alone.replace("NAME", "c").replace("x86_64", "z80"))
    dags, errors = process(folder, monkeypatch)
    assert dags == {"a", "b"}
    assert list(errors) == [str(folder / "c.yaml")] and "x86_64" in errors[str(folder / "c.yaml")]
    dag = load_submissions(folder, by_file)["b"]
    upstream = {task.task_id: task.upstream_task_ids for task in dag.tasks}
    assert upstream == {"validate": set(), "run": {"validate"}, "outcome": {"run"}}
    validate: Any = dag.get_task("validate")
    assert validate.file == "below/b"
    assert {"user", "priority", "p99_ms"} <= set(dag.params) and not {"submission", "name"} & set(dag.params)
    assert {task.task_id for task in load_submissions(folder, by_file)["a"].tasks} > {"job-000.serve"}
    (folder / "d.yaml").write_text(alone.replace("NAME", "a"))
    assert "taken by" in process(folder, monkeypatch)[1][str(folder / "d.yaml")]
