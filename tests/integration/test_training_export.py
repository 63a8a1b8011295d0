"""Stored trainings as files for other tools, from a real PerfDB."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from inferbench_tasks import settings
from inferbench_tasks.cli.training import app
from inferbench_tasks.perfdb.documents import Provenance
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training import steps, stored_job
from inferbench_tasks.training.imported import table
from tests.unit.training.epochs import JOB, PHASES_MS, STEP_MS, answer
from tests.unit.training.report.results import view

pytestmark = pytest.mark.integration
JADE = {
    "columns": {"loading": 0.0312, "forward": 0.00451},
    "without_warmup": None,
    "step_s": 0.03571,
    "reason": None,
}


@pytest.fixture
def stored(perfdb: PerfDB, perfdb_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two ranks with steps of known times, with Jade's columns; and an invalid run."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    path = tmp_path / "steps.parquet"
    steps.write([answer(0), answer(1)], path)
    for label, wrong in (("good", None), ("bad", "nobody watched")):
        result = view(label, ranks=2, jade=JADE, wrong=wrong).result
        result = result.model_copy(
            update={"provenance": Provenance.model_validate({"job": stored_job.stored(JOB)})}
        )
        perfdb.start_run(result.run_id, "x-1", "x", JOB.model_dump(mode="json"))
        perfdb.save_result(result, path)
        perfdb.end_run(result.run_id, result.verdict)
    return tmp_path


def test_a_timeline_has_every_phase_of_every_rank(stored: Path) -> None:
    """Of 3 rounds x 23 steps one of all ranks, and of each of 2 ranks, a process of its own, a step with its three
    phases, in microseconds, with the clocks beside.
    """
    file = stored / "t.json"
    ended = CliRunner().invoke(app, ["export", str(file), "x-1.good"])
    assert ended.exit_code == 0, ended.output
    events = json.loads(file.read_text())["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert list(names.values()) == ["all ranks", "rank 0", "rank 1"]
    spans = [event for event in events if event["ph"] == "X"]
    of_ranks = {name: [event for event in spans if names[event["pid"]] == name] for name in names.values()}
    assert [len(own) for own in of_ranks.values()] == [3 * 23, *(3 * 23 * (1 + len(PHASES_MS)),) * 2]
    assert {event["dur"] for event in of_ranks["all ranks"]} == {STEP_MS * 1e3}
    clocks = ("cpu_ms", "wait_ms", "own_cpu_ms", "own_wait_ms")
    loading = [event for event in of_ranks["rank 1"] if event["name"] == "loading"]
    assert {event["dur"] for event in loading} == {4000.0}
    assert {tuple(event["args"][clock] for clock in clocks) for event in loading} == {(1.0, 2.0, 1.0, 2.0)}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_raw_steps_are_those_that_were_stored(stored: Path, ending: str) -> None:
    """Line by line."""
    file = stored / f"raw.{ending}"
    assert CliRunner().invoke(app, ["export", str(file), "x-1.good"]).exit_code == 0
    read = pyarrow.csv.read_csv(file) if ending == "csv" else pyarrow.parquet.read_table(file)
    whole = pyarrow.parquet.read_table(stored / "steps.parquet")
    assert read.column_names == whole.column_names
    assert read["forward_wall_ns"].to_pylist() == whole["forward_wall_ns"].to_pylist()


def test_a_table_of_jades_is_read_back_as_it_was(stored: Path) -> None:
    """By the reader of its published ones: times in seconds, a dash where it has no column, the batch above it."""
    file = stored / "t.md"
    assert CliRunner().invoke(app, ["export", str(file), "x-1.good"]).exit_code == 0
    (row,) = table.read(file.read_text(), "t.md")
    assert (row.model, row.data, row.benchmark, row.devices) == ("fashion-cnn", "digits", "inference", 2)
    assert (row.loading_s, row.processing_s, row.forward_s) == (0.0312, None, 0.00451)
    assert (row.batch_size, row.image_size) == (32, 28)


def test_what_can_not_be_written_is_refused_and_leaves_no_file(stored: Path) -> None:
    """Another ending, two runs in a timeline, an invalid run in a table."""
    for name, runs, words in (
        ("t.xyz", ["x-1.good"], ".json (chrome), .parquet (parquet), .csv (csv), .md (jade)"),
        ("t.json", ["x-1.good", "x-1.bad"], "chrome holds one run; got 2"),
        ("t.md", ["x-1.good", "x-1.bad"], "x-1.bad is invalid"),
    ):
        ended = CliRunner().invoke(app, ["export", str(stored / name), *runs])
        assert words in str(ended.exception), name
        assert not (stored / name).exists()
