"""``inferbench bricks export|run|import`` from end to end: real suites, times that are calculated by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks import settings
from inferbench_tasks.bricks.measure.method import Setting
from inferbench_tasks.bricks.measure.references import NAMES
from inferbench_tasks.bricks.suite import inspect
from inferbench_tasks.bricks.suite import run as suite_run
from inferbench_tasks.bricks.suite.answer import Answer, rounds_of
from inferbench_tasks.bricks.suite.manifest import Manifest, canonical, digest_of, read_suite
from inferbench_tasks.cli.main import main
from inferbench_tasks.perfdb.store import PerfDB
from tests.unit.bricks.graphs import residual, save, weight
from tests.unit.bricks.suite.test_manifest import suite as made

pytestmark = pytest.mark.integration
SETTING = Setting(processor="Far CPU", instruction_set="z80", cores=1, threads=1, runtime="onnxruntime 1")
STORED = ("brick_results", "brick_levels")


def bricks(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as end:
        main(["bricks", *map(str, arguments)])
    return int(end.value.code or 0)


@pytest.fixture
def suite(tmp_path: Path, data_dir: Path, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a model with secrets in all its names, and of one dummy."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    residual(tmp_path / "secret.onnx", prefix="secret/")
    folder = tmp_path / "suite"
    assert bricks("export", tmp_path / "secret.onnx", "--dummies", "1", "--runs", "15", "-o", folder) == 0
    return folder


def answered(folder: Path, ns_of: Callable[[str], int]) -> Answer:
    """Times of another device, made up: of each network the same in all runs, streamed twice as much."""
    text = (folder / "suite.json").read_bytes()
    manifest = Manifest.model_validate_json(text)
    times = {
        entry.name: {"warm": [ns_of(entry.name)] * 5, "streamed": [2 * ns_of(entry.name)] * 5}
        for entry in manifest.networks
    }
    rounds: list[Any] = [
        {"references_ns": dict.fromkeys(NAMES, 100.0), "wait_ratio": None, "times": times} for _ in range(3)
    ]
    return Answer(
        suite=digest_of(text), setting=SETTING, method=manifest.method, sessions=(rounds_of(rounds),),
        measured_at="2026-01-01T00:00:00+00:00",
    ).sealed()  # fmt: skip


def numbers(path: Path) -> list[Any]:
    """All constants of a network and all its inputs."""
    with np.load(path.with_suffix(".npz")) as inputs:
        arrays = [inputs[name] for name in inputs.files]
    return arrays + [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


def test_a_suite_gives_back_the_prediction_of_a_model_it_does_not_show(
    suite: Path, tmp_path: Path, perfdb: PerfDB, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a name nor a weight of the model is in it; its times, taken in, are added up as often as the bricks stand
    in the model; a dummy's are left out, and the same file twice is stored once."""
    files = [path for path in suite.rglob("*") if path.is_file()]
    assert not any(b"secret" in path.read_bytes() for path in files)
    networks = sorted((suite / "networks").glob("*.onnx"))
    own = weight(4, 4, 3, 3, seed=1).reshape(-1)
    assert all(np.isin(own, array).mean() < 0.01 for path in networks for array in numbers(path))
    known = {one["name"]: one for one in perfdb.collection("brick_suites").find({})}
    assert set(known) == {path.stem for path in networks}
    real = sorted(name for name, one in known.items() if one["identities"])
    assert 0 < len(real) < len(known)
    # What is not the owner's takes very long: it must not count.
    answer = answered(suite, lambda name: 1000 * (1 + real.index(name)) if name in real else 10**9)
    path = tmp_path / "results.json"
    path.write_bytes(canonical(answer))
    for _ in range(2):
        assert bricks("import", path, "--device", "far") == 0
    assert perfdb.collection("brick_results").count_documents({}) == len(real)
    capsys.readouterr()
    asked = ("predict", tmp_path / "secret.onnx", "--device", "far", "-o", "json")
    assert bricks(*asked, "--view", "portable") == 0
    [row] = json.loads(capsys.readouterr().out)
    cut = perfdb.collection("decompositions").find_one({"view": "portable"})
    assert cut is not None and cut["instruction_set"] is None
    times = {known[name]["identities"][0]: 1e-3 * (1 + at) for at, name in enumerate(real)}
    assert row["predicted_ms"] == pytest.approx(sum(times[part] for part in cut["parts"]))
    assert row["coverage_ratio"] == 1 and row["view"] == "portable"
    # Bricks of the view that has this machine's layouts are none of those.
    assert bricks(*asked) == 2
    assert "a model's bricks are of one" in capsys.readouterr().err


def test_results_that_are_not_the_suite_s_are_refused_whole(
    tmp_path: Path,
    perfdb: PerfDB,
    perfdb_uri: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Unknown networks, one too few, another suite, device, or level: exit code 2, and nothing is stored."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    suite = made(tmp_path)
    of = {"suite": digest_of((suite / "suite.json").read_bytes()), "key": "k", "operators": ["MatMul"]}
    perfdb.collection("brick_suites").insert_many(
        {**of, "name": path.stem, "identities": [path.stem], "models": ["m"]}
        for path in (suite / "networks").glob("*.onnx")
    )
    good = answered(suite, lambda name: 1000)
    [rounds] = good.sessions
    some = next(iter(rounds[0].times))

    def renamed(new: str | None) -> Answer:
        changed = []
        for one in rounds:
            times = dict(one.times)
            moved = times.pop(some)
            changed.append(one.model_copy(update={"times": times | ({new: moved} if new else {})}))
        return good.model_copy(update={"sessions": (tuple(changed),)})

    path = tmp_path / "results.json"
    for answer, why in (
        (renamed("0" * 16), "not those of the suite's networks"),
        (renamed(None), "not those of the suite's networks"),
        (good.model_copy(update={"suite": "b" * 64}), "no suite bbbbbbbbbbbb was exported"),
    ):
        path.write_bytes(canonical(answer.sealed()))
        assert bricks("import", path) == 2
        assert why in capsys.readouterr().err
    path.write_bytes(canonical(good))
    assert bricks("import", path, "--device", "near") == 2
    assert "the results are of Far CPU, not of near" in capsys.readouterr().err
    assert not any(perfdb.collection(name).count_documents({}) for name in STORED)
    # The references are known there: what takes three times as long is another machine.
    assert bricks("import", path) == 0
    slow = [one.model_copy(update={"references_ns": dict.fromkeys(NAMES, 300.0)}) for one in rounds]
    path.write_bytes(canonical(good.model_copy(update={"sessions": (tuple(slow),)}).sealed()))
    stored = perfdb.collection("brick_results").count_documents({})
    assert bricks("import", path) == 2
    assert "the references took 3.00 times" in capsys.readouterr().err
    assert perfdb.collection("brick_results").count_documents({}) == stored


def test_a_suite_is_timed_where_nothing_else_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without PerfDB and the model; every network in each state, or the word that this machine was not quiet."""
    monkeypatch.setenv(settings.PERFDB_URI, "mongodb://127.0.0.1:9/none")
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "nothing"))
    monkeypatch.setattr(suite_run, "_ATTEMPTS", 1)
    suite, path = made(tmp_path), tmp_path / "results.json"
    code = bricks("run", suite, "-o", path)
    err = capsys.readouterr().err
    if code == 1:  # other work on this machine
        assert "the machine was not quiet" in err and not path.exists()
        return
    assert code == 0
    answer = Answer.model_validate_json(path.read_bytes())
    manifest = Manifest.model_validate_json((suite / "suite.json").read_bytes())
    assert set(answer.sessions[0][0].times) == {entry.name for entry in manifest.networks}
    assert not (tmp_path / "nothing").exists()


def outside(path: Path) -> None:
    """Its weights are what a file of the machine holds."""
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value="/etc/hostname")
    model = onnx.load(path)
    model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())


def foreign(path: Path) -> None:
    """An operator that somebody's library would bring."""
    model = onnx.load(path)
    model.graph.node[0].domain = "evil.example"
    model.opset_import.add(domain="evil.example", version=1)
    path.write_bytes(model.SerializeToString())


def within(path: Path) -> None:
    """The same in the body of a condition."""
    inner = helper.make_node("Own", [], ["b"], domain="evil.example")
    out = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    body = helper.make_graph([inner], "g", [], [out])
    node = helper.make_node("If", ["x0"], ["y0"], then_branch=body, else_branch=body)
    save(path, [node], {}, {"x0": (TensorProto.BOOL, ())}, ["y0"])


def broken(path: Path) -> None:
    """No ONNX."""
    path.write_bytes(b"\x08\x09" + b"\xff" * 100)


def pickled(path: Path) -> None:
    """Inputs that would be run when they are read."""
    np.savez(path.with_suffix(".npz"), x0=np.array([print], dtype=object))


def packed(path: Path) -> None:
    """A few bytes that become many."""
    np.savez_compressed(path.with_suffix(".npz"), x0=np.zeros(1_000_000))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (outside, "its numbers lie in another file"),
        (foreign, "'evil.example', which is neither ONNX's nor the runtime's"),
        (within, "'evil.example', which is neither ONNX's nor the runtime's"),
        (broken, "can't be read"),
        (pickled, "can't be read|packed"),
        (packed, "its inputs are packed"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_networks_that_no_suite_has_are_found(
    change: Callable[[Path], None], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever made the suite knows how to write its digests: what is in the networks is looked at."""
    _, _, items = read_suite(made(tmp_path), tmp_path / "copy")
    change(items[1].path)
    order = tmp_path / "order.json"
    order.write_text(json.dumps({"networks": [[one.name, str(one.path), str(one.feeds)] for one in items]}))
    inspect.main(str(order))
    line = json.loads(capsys.readouterr().out)
    assert line["refused"] == items[1].name and re.search(why, line["why"])


def test_a_suite_with_such_a_network_is_refused_before_one_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was sealed with it: exit code 2 of a process in the sandbox, and no results."""
    folder = made(tmp_path, foreign)
    assert bricks("run", folder, "-o", tmp_path / "results.json") == 2
    err = capsys.readouterr().err
    assert "the suite's network" in err and "evil.example" in err
    assert not (tmp_path / "results.json").exists()
