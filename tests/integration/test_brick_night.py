"""A night of bricks on a real PerfDB: what is missing of models that were cut is timed, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs import queries
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.night import run_night
from inferbench_tasks.brick_jobs.store import RESULTS, PerfDBResults
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import cores_for, setting
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel, ZooModel
from tests.unit.bricks.graphs import residual

pytestmark = pytest.mark.integration
METHOD = Method(runs=15, rounds=3, budget_s=1.0)


def test_a_night_times_what_is_missing(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a built-in model that was cut, not of one that is not to be had any more; within its budget; a machine that is
    not quiet is said to be, and nothing of it is kept."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx = Context(data_dir=data_dir, base_dir=data_dir, run_stage=perform)
    cores = cores_for(1)
    results = PerfDBResults(perfdb, setting(cores, 1))
    job = job_of("t", ZooModel(kind="zoo", name="digits"))
    results.put_cuts(asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job, networks=False).cuts)
    gone = {
        "model": "gone",
        "batch_size": 1,
        "instruction_set": results.setting.instruction_set,
        "view": "runtime",
    }
    results.put_cut("whole-gone", "1", ["of-gone"], [[]], gone)
    none = run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    assert (none.lacked, none.measured, none.gone) == (5, [], ["gone"])
    night = run_night(perfdb, results, ctx, cores, 60, 30, METHOD)
    assert not night.failed and night.lacked == 5
    stored = set(perfdb.collection(RESULTS).distinct("identity"))
    if night.disturbed:  # other work on this machine
        assert not night.measured and not stored
        return
    assert stored == set(night.measured) and len(stored) == 4


def test_a_registered_model_stands_in_the_gaps_until_its_newest_version_is_cut(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its registration on; a night cuts it, and a newer version of the name again."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx = Context(data_dir=data_dir, base_dir=data_dir, run_stage=perform)
    cores = cores_for(1)
    results = PerfDBResults(perfdb, setting(cores, 1))
    results.set_base_ns({"dense": 1.0})
    repository = ModelRepository(perfdb)

    def register(**convolution: Any) -> None:
        path = residual(tmp_path / "ours.onnx", **convolution)
        source = FileSource(FileModel(kind="file", path=path.name), tmp_path)
        repository.register(build_model(source, data_dir, Watch()), "ours")

    wider: dict[str, Any] = {"pads": [2, 2, 2, 2], "dilations": [2, 2]}
    for version, convolution in enumerate(({}, wider), start=1):
        register(**convolution)
        [gap] = [row for row in queries.gaps(perfdb) if row["note"]]
        assert (gap["model"], gap["missing"], gap["note"]) == ("ours", None, queries.NOT_CUT)
        run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
        rows = [row for row in queries.gaps(perfdb) if row["model"] == "ours"]
        assert len(rows) == version and all(row["missing"] for row in rows)
