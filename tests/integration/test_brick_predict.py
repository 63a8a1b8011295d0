"""``inferbench bricks predict`` on a real PerfDB: real networks, and figures that are calculated by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.coverage import percent
from inferbench_tasks.brick_jobs.cut_all import asked_to_cut
from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.bricks.measure.method import Method, Setting
from inferbench_tasks.bricks.processor import instruction_set
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.cli.main import main
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.model import FileModel
from tests.unit.bricks.graphs import residual, save

pytestmark = pytest.mark.integration
SETTING = Setting(
    processor="Some CPU", instruction_set=instruction_set(), cores=1, threads=1, runtime="onnxruntime 1"
)


@pytest.fixture
def model(tmp_path: Path, data_dir: Path, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    return residual(tmp_path / "ours.onnx")


def predict(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["bricks", "predict", "--runs", "15", *arguments])
    return int(end.value.code or 0)


def cut(model: Path, data_dir: Path, batch: int = 1) -> Any:
    ctx = Context(data_dir=data_dir, base_dir=model.parent)
    job = job_of("t", FileModel(kind="file", path=model.name))
    return asked_to_cut(
        ctx, set(), run_id="r", job_id="r", job=job, networks=False, batch_sizes=(batch,)
    ).cuts[0]


def put(
    db: PerfDB, identity: str, ms: float, operators: tuple[str, ...] = ("Op",), setting: Setting = SETTING
) -> None:
    times = {"warm": (ms * 1e6,) * 3, "streamed": (ms * 2e6,) * 3}
    result = Result(
        identity=identity, key=identity, operators=operators, setting=setting, session="s", method=Method(),
        rounds_ns=times, raw_ns={},
    )  # fmt: skip
    PerfDBResults(db, setting).put(result)


def test_a_device_s_prediction_is_the_sum_of_what_is_stored_of_it(
    model: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each brick as often as it stands in the model; with one missing no figure, and the words say how many lack."""
    one = cut(model, data_dir)
    PerfDBResults(perfdb, SETTING).set_base_ns({"dense": 1.0})
    unique = list(dict.fromkeys(one.parts))
    for at, identity in enumerate(unique[:-1]):
        put(perfdb, identity, 1.0 + at)
    assert predict(str(model), "--device", "some", "-o", "json") == 0
    out, err = capsys.readouterr()
    [row] = json.loads(out)
    assert row["predicted_ms"] is None and row["coverage_ratio"] is None and row["missing"] == 1
    assert f"no prediction: 1 of {len(unique)} unique bricks have no time on Some CPU" in err
    put(perfdb, unique[-1], 100.0)
    times = {identity: 1.0 + at for at, identity in enumerate(unique[:-1])} | {unique[-1]: 100.0}
    assert predict(str(model), "--device", "some", "-o", "json") == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["predicted_ms"] == pytest.approx(sum(times[part] for part in one.parts))
    assert row["streamed_ms"] == pytest.approx(2 * row["predicted_ms"]) and row["coverage_ratio"] == 1


def test_a_batch_size_between_two_that_are_stored_is_interpolated(
    model: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 ms each brick at 1, 8 ms at 8: 4 ms at 4, none of it measured, which the words begin with; 16 is refused."""
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    for batch in (1, 8):
        one = cut(model, data_dir, batch)
        store.put_cuts([one])
        for work in one.work:
            put(perfdb, work.identity, float(batch), work.operators)
    assert predict(str(model), "--device", "some", "--batch-size", "4", "-o", "json") == 0
    out, err = capsys.readouterr()
    [row] = json.loads(out)
    assert row["predicted_ms"] == pytest.approx(4 * row["bricks"]) and row["coverage_ratio"] == 0
    assert err.startswith("ours: only 0.0% of this time is measured") and "between batch 1 and 8" in err
    assert predict(str(model), "--device", "some", "--batch-size", "16", "-o", "json") == 2
    assert "measured there at batch 1 and 8; 16 is beyond" in capsys.readouterr().err


def test_what_is_missing_is_measured_once_and_kept_for_submissions(
    model: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """In PerfDB; the second time nothing is measured that the machine let us keep."""
    assert predict(str(model), "--whole", "-o", "json") == 0
    [first] = json.loads(capsys.readouterr().out)
    assert first["measured_now"] == first["unique"] < first["bricks"] and first["coverage_ratio"] == 1
    assert first["predicted_ms"] == pytest.approx(sum(row["ms"] for row in first["by_operators"]))
    assert first["measured_ms"] > 0 and first["calibrated_by"] is None
    kept = list(perfdb.collection("brick_results").find({"usable": True}))
    assert perfdb.collection("decompositions").count_documents({"model": first["model"]}) == 1
    if first["disturbed"]:  # other work on this machine
        assert not kept
        return
    assert len(kept) == first["unique"] + 1
    assert predict(str(model), "--whole", "-o", "json") == 0
    [again] = json.loads(capsys.readouterr().out)
    assert again["measured_now"] == 0 or again["disturbed"]
    assert again["predicted_ms"] == pytest.approx(first["predicted_ms"])


def test_a_brick_that_answers_with_nan_fails_by_its_name(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The logarithm of a negative number: no figure, the layer and why."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Sqrt", ["b"], ["y"], name="the-root"),
    ]
    path = save(tmp_path / "nan.onnx", nodes, {}, {"x": (TensorProto.FLOAT, ("batch", 4))})
    assert predict(str(path), "-o", "json") == 1
    out, err = capsys.readouterr()
    assert not out and "the-root can't be timed: it answers with NaN" in err


def test_bad_wishes_are_refused_before_anything_is_opened(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that nothing was measured on, and what would have to be timed there."""
    assert predict(str(model), "--device", "gpu") == 2
    assert "nothing was measured on a device 'gpu'" in capsys.readouterr().err
    assert predict(str(model), "--device", "some", "--whole") == 2
    assert predict(str(model), "--constructor", "magic") == 2
    for wish in (["-G", "5000"], ["--threads", "9999"], ["--precision", "int4"], ["--calibrate-on", "2"]):
        assert predict(str(model), *wish) == 2, wish
    assert predict(str(model), "--constructor", "streams:0") == 2


def test_bricks_that_nobody_measured_are_estimated_and_said_to_be(
    model: Path, data_dir: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """By bricks of the same types in three families, all of 3 ms for the same work: a missing one is 3 ms too. Below
    90% measured that is said first; the coverage is the measured share of the time."""
    one = cut(model, data_dir)
    store = PerfDBResults(perfdb, SETTING)
    store.set_base_ns({"dense": 1.0})
    *rest, absent = one.work
    for work in rest:
        put(perfdb, work.identity, 1.0)
    for family in ("ours", "other", "third"):
        twins = [absent.model_copy(update={"identity": f"{family}-{at}"}) for at in range(30)]
        for twin in twins:
            put(perfdb, twin.identity, 3.0)
        facts = {"model": family, "instruction_set": SETTING.instruction_set}
        work_of = [twin.model_dump(mode="json") for twin in twins]
        store.put_cut(f"whole-{family}", "1", [twin.identity for twin in twins], [[]] * 30, facts, work_of)
    assert predict(str(model), "--device", "some", "-o", "json") == 0
    out, err = capsys.readouterr()
    [row] = json.loads(out)
    times = {work.identity: 1.0 for work in rest} | {absent.identity: 3.0}
    total = sum(times[part] for part in one.parts)
    share = 3.0 * one.parts.count(absent.identity) / total
    assert row["predicted_ms"] == pytest.approx(total, rel=1e-3) and row["missing"] == 1
    assert row["coverage_ratio"] == pytest.approx(1 - share, rel=1e-3)
    assert next(iter(row)) == "warning" and row["warning"].startswith(
        f"only {percent(row['coverage_ratio'])} of this time is measured"
    )
    assert err.splitlines()[0].startswith("ours: only") and "families that were held back" in err
    assert sum(line.get("estimated", 0) for line in row["by_operators"]) == one.parts.count(absent.identity)


def test_a_registered_model_is_named_with_its_version(
    model: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the file that was registered; a version that there is not is refused, and so is one of no manifest."""

    def inferbench(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return int(end.value.code or 0)

    assert inferbench("models", "register", "ours", "--file", str(model)) == 0
    capsys.readouterr()
    assert inferbench("bricks", "decompose", "ours@1", "--view", "source", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"], found["layers"]) == ("ours", 9)
    assert inferbench("bricks", "decompose", "ours@2") == 2
    assert "ours" in capsys.readouterr().err
    assert inferbench("bricks", "decompose", "ours@^1.0") == 2
    assert "ours" in capsys.readouterr().err
    assert inferbench("bricks", "decompose", "ours@1", "--framework", "torch") == 2
    assert "leave --framework out" in capsys.readouterr().err


def test_a_name_that_is_none_is_told_before_others_are_timed(
    model: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and nothing is stored of the model that stands before it."""
    assert predict(str(model), "resnet51") == 2
    assert "resnet51" in capsys.readouterr().err
    assert not perfdb.collection("brick_results").count_documents({})
    assert not perfdb.collection("decompositions").count_documents({})
