"""A night of bricks on a real PerfDB: what is missing of models that were cut is timed, once."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs import queries
from inferbench_tasks.brick_jobs.advise import advised
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.gaps import gaps as gaps_of
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.night import _Models, run_night
from inferbench_tasks.brick_jobs.store import RESULTS, PerfDBResults
from inferbench_tasks.brick_jobs.stored import predicted
from inferbench_tasks.brick_jobs.uncut import CANT_CUT, NOT_CUT
from inferbench_tasks.brick_jobs.useful import lacking
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.session import cores_for, setting
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel, RegistryModel, ZooModel
from tests.integration.test_brick_predict import put as put_brick
from tests.unit.bricks.graphs import residual, save

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
    """From its registration on; a night cuts it, and a newer version of the name again: what only the older one
    consists of is no gap any more."""
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
    for convolution in ({}, wider):
        register(**convolution)
        [gap] = [row for row in gaps_of(perfdb) if row["note"]]
        assert (gap["model"], gap["missing"], gap["note"]) == ("ours", None, NOT_CUT)
        run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
        [row] = [row for row in gaps_of(perfdb) if row["model"] == "ours"]
        assert row["missing"]


def _register(perfdb: PerfDB, data_dir: Path, path: Path, name: str) -> None:
    source = FileSource(FileModel(kind="file", path=path.name), path.parent)
    ModelRepository(perfdb).register(build_model(source, data_dir, Watch()), name)


def _ready(perfdb: PerfDB, data_dir: Path, tmp_path: Path) -> tuple[Context, list[int], PerfDBResults]:
    cores = list(cores_for(1))
    results = PerfDBResults(perfdb, setting(cores, 1))
    results.set_base_ns({"dense": 1.0})
    return Context(data_dir=data_dir, base_dir=tmp_path, run_stage=perform), cores, results


def test_a_model_that_was_predicted_as_a_file_before_is_to_be_had_once_it_is_registered(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known by its content, whatever the name it was cut under: before, no night can make it."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, cores, results = _ready(perfdb, data_dir, tmp_path)
    path = residual(tmp_path / "draft.onnx")
    job = job_of("t", FileModel(kind="file", path=path.name))
    results.put_cuts(asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job, networks=False).cuts)
    night = run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    assert night.gone == ["draft"] and night.lacked
    _register(perfdb, data_dir, path, "ours")
    night = run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    assert night.gone == [] and night.lacked
    models = _Models(perfdb, ctx, results.setting.runtime_name)
    assert [cut["model"] for cut in models.cuts(results.setting)] == ["ours"]
    assert [gap["model"] for gap in gaps_of(perfdb)] == ["ours"]


def test_a_registered_model_is_predicted_by_its_name_whatever_it_was_called_when_it_was_cut(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut as a file of another name, registered and cut again, which is the same document: the registered name has its
    prediction, and is advised for the task."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, _, results = _ready(perfdb, data_dir, tmp_path)
    path = residual(tmp_path / "draft.onnx")
    job = job_of("t", FileModel(kind="file", path=path.name))
    [cut] = asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job, networks=False).cuts
    results.put_cuts([cut.model_copy(update={"task": "vision"})])
    for identity in dict.fromkeys(cut.parts):
        put_brick(perfdb, identity, 1.0, setting=results.setting)
    with pytest.raises(InputError, match="'ours' was never cut"):
        predicted(perfdb, "ours")
    _register(perfdb, data_dir, path, "ours")
    job = job_of("t", RegistryModel(kind="registry", name="ours"))
    results.put_cuts(asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job, networks=False).cuts)
    row = predicted(perfdb, "ours")
    assert row["model"] == "ours" and row["predicted_ms"] == pytest.approx(len(cut.parts))
    assert queries.models_of(perfdb, "vision", 1, "1") == ["ours"]


def test_what_only_an_older_version_consists_of_takes_no_budget(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer version is cut where the older one was, at each batch size, and only its bricks are still wanted."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, cores, results = _ready(perfdb, data_dir, tmp_path)
    _register(perfdb, data_dir, residual(tmp_path / "m.onnx"), "ours")
    job = job_of("t", RegistryModel(kind="registry", name="ours"))
    common: dict[str, Any] = {"run_id": "r", "job_id": "r", "job": job, "networks": False}
    first = asked_to_cut(ctx, set(), **common, batch_sizes=(1, 4)).cuts
    results.put_cuts(first)
    changed = residual(tmp_path / "m.onnx", pads=[2, 2, 2, 2], dilations=[2, 2])
    _register(perfdb, data_dir, changed, "ours")
    models = _Models(perfdb, ctx, results.setting.runtime_name)
    assert models.cuts(results.setting) == []
    night = run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    second = asked_to_cut(ctx, set(), **common, batch_sizes=(1, 4)).cuts
    found = {cut["batch_size"]: tuple(cut["parts"]) for cut in models.cuts(results.setting)}
    assert (
        found == {cut.batch_size: cut.parts for cut in second} != {cut.batch_size: cut.parts for cut in first}
    )
    assert night.lacked == len({part for cut in second for part in cut.parts})
    gaps = {gap["batch_size"]: gap["missing"] for gap in gaps_of(perfdb)}
    assert gaps == {cut.batch_size: len(set(cut.parts)) for cut in second}


def test_why_a_model_can_t_be_cut_stands_in_the_gaps_and_none_waits_for_a_night_that_there_is_not(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an open size nothing is cut, and the next night does not do it either; nights run ONNX Runtime only."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, cores, results = _ready(perfdb, data_dir, tmp_path)
    PerfDBResults(perfdb, results.setting.model_copy(update={"runtime": "openvino 1"})).set_base_ns(
        {"dense": 1.0}
    )
    free = {"x": (TensorProto.FLOAT, ("batch", "n"))}
    path = save(tmp_path / "free.onnx", [helper.make_node("Relu", ["x"], ["y"])], {}, free)
    _register(perfdb, data_dir, path, "free")
    [gap] = gaps_of(perfdb)
    assert gap["note"] == NOT_CUT and gap["runtime"] == results.setting.runtime
    run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    [gap] = gaps_of(perfdb)
    assert gap["note"].startswith(CANT_CUT) and "size" in gap["note"] and gap["missing"] is None
    _register(perfdb, data_dir, residual(tmp_path / "m.onnx"), "free")
    assert [row["note"] for row in gaps_of(perfdb)] == [NOT_CUT]


def test_an_older_version_s_bricks_are_never_those_of_a_newer_one(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of version 1 is known, version 2 was never cut: no figure under the name, and what is to be done; nothing is
    advised of it either. Cut, it is predicted by its own bricks; the content of version 1 again, by those."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, _, results = _ready(perfdb, data_dir, tmp_path)
    paths = residual(tmp_path / "1.onnx"), residual(tmp_path / "2.onnx", pads=[2, 2, 2, 2], dilations=[2, 2])
    _register(perfdb, data_dir, paths[0], "ours")
    job = job_of("t", RegistryModel(kind="registry", name="ours"))

    def cut(ms: float) -> tuple[str, ...]:
        [one] = asked_to_cut(ctx, set(), run_id="r", job_id="r", job=job, networks=False).cuts
        results.put_cuts([one.model_copy(update={"task": "vision"})])
        for identity in dict.fromkeys(one.parts):
            put_brick(perfdb, identity, ms, setting=results.setting)
        return one.parts

    older = cut(1.0)
    assert predicted(perfdb, "ours")["predicted_ms"] == pytest.approx(len(older))
    _register(perfdb, data_dir, paths[1], "ours")
    with pytest.raises(
        InputError, match="as it is now, in version 2; what was cut .* is another version.*ours@2"
    ):
        predicted(perfdb, "ours")
    found = advised(perfdb, "", "vision", "", 1, "1", None)
    assert not found["ranked"] and "in version 2" in found["left_out"][0]["why"]
    newer = cut(2.0)  # of what both have the first time stands: it is of the same session
    times = [1.0 if part in older else 2.0 for part in newer]
    assert newer != older and predicted(perfdb, "ours")["predicted_ms"] == pytest.approx(sum(times))
    _register(perfdb, data_dir, paths[0], "ours")
    assert predicted(perfdb, "ours")["predicted_ms"] == pytest.approx(len(older))


def test_a_registered_model_of_free_sizes_is_a_night_s_at_the_sizes_at_which_it_was_cut(
    perfdb: PerfDB, perfdb_uri: str, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for each of its sizes, with what is missing; its networks are made at each. A newer version is cut at the
    same sizes, and predicted by its name at those at which it was cut last, which the answer says."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    ctx, cores, results = _ready(perfdb, data_dir, tmp_path)

    def register(operator: str) -> None:
        free = {"x": (TensorProto.FLOAT, ("batch", "n"))}
        path = save(tmp_path / "free.onnx", [helper.make_node(operator, ["x"], ["y"])], {}, free)
        _register(perfdb, data_dir, path, "free")

    register("Relu")
    job = job_of("t", RegistryModel(kind="registry", name="free"))
    common: dict[str, Any] = {"run_id": "r", "job_id": "r", "job": job, "networks": False}
    for size in (8, 16):
        results.put_cuts(asked_to_cut(ctx, set(), **common, shapes={"x": (size,)}).cuts)

    def gaps() -> list[tuple[Any, ...]]:
        rows = gaps_of(perfdb)
        return sorted((row["model"], row["shapes"], row["missing"], row["note"]) for row in rows)

    both = [("free", "x=16", 1, None), ("free", "x=8", 1, None)]
    assert gaps() == both
    night = run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    assert (night.lacked, night.gone) == (2, [])
    models = _Models(perfdb, ctx, results.setting.runtime_name)
    ranked = lacking(models.cuts(results.setting), set(), {}, METHOD)
    with ExitStack() as kept:
        networks = models.networks(ranked, kept)
        assert {one.item.name for one in networks} == {one.identity for one in ranked}
        assert all(one.item.path.is_file() for one in networks)
    register("Tanh")
    assert [row["note"] for row in gaps_of(perfdb)] == [NOT_CUT]
    run_night(perfdb, results, ctx, cores, 1e-3, 30, METHOD)
    assert gaps() == both
    [last] = asked_to_cut(ctx, set(), **common, shapes={"x": (8,)}).cuts
    results.put_cuts([last])
    put_brick(perfdb, last.parts[0], 3.0, setting=results.setting)
    row = predicted(perfdb, "free")
    assert (row["shapes"], row["predicted_ms"]) == ("x=8", pytest.approx(3.0))
    assert gaps() == [("free", "x=16", 1, None)]
