"""Models that are cut alike share documents; each is predicted from what is stored with its own sizes and inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.under_load.stored import Asked, timed_uncut
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel
from inferbench_tasks.submission.schema import JobSpec
from tests.integration.test_brick_predict import SETTING
from tests.integration.test_brick_predict import put as put_brick
from tests.unit.bricks.graphs import residual, save, weight

pytestmark = pytest.mark.integration


@pytest.fixture
def store(perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> PerfDBResults:
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    results = PerfDBResults(perfdb, SETTING)
    results.set_base_ns({"dense": 1.0})
    return results


def cut(model: Path, data_dir: Path, sizes: tuple[int, ...], **more: Any) -> Any:
    ctx = Context(data_dir=data_dir, base_dir=model.parent)
    job = job_of("t", FileModel(kind="file", path=model.name))
    common: dict[str, Any] = {
        "run_id": "r",
        "job_id": "r",
        "job": job,
        "networks": False,
        "batch_sizes": sizes,
    }
    return asked_to_cut(ctx, set(), **common, **more).cuts


def asked(most: int) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "t", "model": {"kind": "file", "path": "ours.onnx"},
            "serve": {"batching": {"max_batch_size": most, "max_delay_ms": 1}},
            "load": {"arrivals": {"kind": "poisson", "rate_rps": 5}},
        }
    )  # fmt: skip


def test_a_retrained_model_has_the_measured_times_of_each_of_its_sizes(
    perfdb: PerfDB, store: PerfDBResults, data_dir: Path, tmp_path: Path
) -> None:
    """Also where a model with other weights was cut there before, whose document it is, too: 40 ms were measured at 4,
    where 2 and 8 would give 4; and a size between is found though the documents have another digest."""
    store.put_cuts(cut(residual(tmp_path / "theirs.onnx"), data_dir, (1, 4)))
    cuts = cut(residual(tmp_path / "ours.onnx", seed=7), data_dir, (1, 2, 4, 8))
    store.put_cuts(cuts)
    for one in cuts:
        for part in dict.fromkeys(one.parts):
            put_brick(perfdb, part, {1: 1.0, 2: 2.0, 4: 40.0, 8: 8.0}[one.batch_size])
    rows = timed_uncut(perfdb, asked(8), tmp_path, "Some CPU", Asked()).rows
    count = len(cuts[0].parts)
    known = {size: rows[size]["predicted_ms"] for size in (1, 2, 4, 8)}
    assert known == pytest.approx({1: count, 2: 2 * count, 4: 40 * count, 8: 8 * count})
    assert not any(rows[size].get("interpolated_between") for size in (1, 2, 4, 8))
    between = {
        size: row["interpolated_between"] for size, row in rows.items() if row.get("interpolated_between")
    }
    assert all(pair in ([2, 4], [4, 8]) for pair in between.values())


def test_inputs_are_the_model_s_own_whoever_was_cut_alike_last(
    perfdb: PerfDB, store: PerfDBResults, data_dir: Path, tmp_path: Path
) -> None:
    """One that leaves a size open is cut, at that size, as one that has it."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]

    def saved(name: str, sizes: tuple[int | str, ...]) -> Path:
        return save(tmp_path / name, nodes, {"w": weight(8, 8)}, {"x": (TensorProto.FLOAT, sizes)})

    [own] = cut(saved("ours.onnx", ("batch", 8, 8)), data_dir, (1,))
    [free] = cut(saved("free.onnx", ("batch", "n", 8)), data_dir, (1,), shapes={"x": (8, 8)})
    store.put_cuts([own, free])
    assert own.whole == free.whole and own.made_from != free.made_from
    put_brick(perfdb, own.parts[0], 1.0)
    timed = timed_uncut(perfdb, asked(1), tmp_path, "Some CPU", Asked())
    assert [spec.shape for spec in timed.inputs] == [(8, 8)] and [spec.shape for spec in timed.outputs] == [
        (8, 8)
    ]
