"""BenchmarkJade's tables by the command line, kept in a real PerfDB."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.training import app
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.jade_files import TABLE, log

pytestmark = pytest.mark.integration


def test_an_import_is_kept_once_and_never_among_results(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice the same files are one import; ``diagnose`` says the same of it; no list of results has it."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    (tmp_path / "README.md").write_text(TABLE)
    (tmp_path / "1.out").write_text(log())
    files = [str(tmp_path / "README.md"), str(tmp_path / "1.out")]
    first, again = (CliRunner().invoke(app, ["import", *files, "-o", "json"]) for _ in range(2))
    assert first.exit_code == 0, first.output
    import_id = json.loads(first.stdout)["import_id"]
    assert json.loads(again.stdout)["import_id"] == import_id
    assert perfdb.collection("imported_trainings").count_documents({}) == 1
    shown = CliRunner().invoke(app, ["diagnose", import_id[:9]])
    assert shown.stdout.startswith("1. [cause] 40 processes share 2 granted core(s)")
    assert perfdb.results_of(TrainingResult) == []
    assert CliRunner().invoke(app, ["diagnose", "nothing"]).exit_code != 0
    (row,) = json.loads(CliRunner().invoke(app, ["list", "--imported", "-o", "json"]).stdout)
    assert (row["import"], row["rows"], row["logs"], row["clusters"]) == (import_id, 15, 1, "TN, JADE2")
    content = json.loads(CliRunner().invoke(app, ["show", import_id[:9], "-o", "json"]).stdout)["content"]
    assert content["logs"][0]["usual_workers"] == 2 and content["rows"][12]["cells"]["forward"] == "0.559"
    refused = CliRunner().invoke(app, ["list", "--imported", "--cluster", "TN"])
    assert isinstance(refused.exception, InputError) and "by their time" in str(refused.exception)


def test_latest_of_nothing_says_how_to_begin(
    perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a training and without an import both ways to one are named."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ended = CliRunner().invoke(app, ["diagnose", "latest"])
    assert isinstance(ended.exception, InputError)
    assert "kind: training" in str(ended.exception) and "training import" in str(ended.exception)
