"""The submissions folder as DAGs."""

from __future__ import annotations

import shutil
from pathlib import Path

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
