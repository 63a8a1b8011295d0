"""What is said before a start of models that take exactly so many samples in each call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks import settings
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cli.main import main
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.fixed_batch import remarks, takers
from inferbench_tasks.submission.model import FileModel
from inferbench_tasks.submission.schema import Submission
from inferbench_tasks.submission.sweep import expand


def of_four(path: Path) -> None:
    """A model of exactly four samples: each row of the batch has a constant of its own added."""
    weights, rows = (np.random.default_rng(seed).normal(size=(4, 2)).astype(np.float32) for seed in (0, 1))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 2])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(rows, "c")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of submissions with that model beside them."""
    of_four(tmp_path / "four.onnx")
    return tmp_path


def asked(folder: Path, **changes: Any) -> Submission:
    document: dict[str, Any] = {
        "name": "s",
        "model": {"kind": "file", "path": "four.onnx"},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, "batch_size": 4},
        **changes,
    }
    (folder / "s.yaml").write_text(yaml.safe_dump(document))
    return Submission.model_validate(document)


def inspected(folder: Path, data_dir: Path) -> None:
    """As ``models inspect`` or a run leaves it."""
    made = build_model(FileSource(FileModel(kind="file", path="four.onnx"), folder), data_dir, Watch())
    assert made.batch_size == 4


def test_its_batch_is_told_once_the_file_was_inspected(folder: Path, tmp_path: Path) -> None:
    """Nothing of a file that nobody read; then that it is served at its batch of 4, batching off. Of two jobs the one
    that batches, and of three the two with another batch size, would be refused, each with the remedy.
    """
    jobs = expand(asked(folder))
    assert remarks(jobs, folder, tmp_path / "data") == []
    inspected(folder, tmp_path / "data")
    (said,) = remarks(jobs, folder, tmp_path / "data")
    assert said.startswith("four is served at its batch of 4, batching off: ")
    swept = expand(asked(folder, sweep={"serve.batching": [None, {}]}))
    first, second = remarks(swept, folder, tmp_path / "data")
    assert first.startswith("One job would be refused: serve.batching: four takes exactly 4 sample(s)")
    assert first.endswith("leave batching out") and second == said
    sizes = expand(asked(folder, sweep={"load.batch_size": [1, 4, 8]}))
    first, second = remarks(sizes, folder, tmp_path / "data")
    assert first.startswith("2 jobs would be refused: load.batch_size:") and second == said
    (folder / "four.onnx").unlink()
    assert remarks(jobs, folder, tmp_path / "data") == [], "a file that is gone is said by its run"


def test_an_evaluation_of_it_is_refused(folder: Path, tmp_path: Path) -> None:
    """Samples are asked one by one, which such a model refuses, each of them, after the whole load. A trace asks at its
    batch."""
    inspected(folder, tmp_path / "data")
    jobs = expand(asked(folder, evaluate={"dataset": "digits"}))
    (said,) = remarks(jobs, folder, tmp_path / "data")
    assert said.startswith("One job would be refused: evaluate: four takes exactly 4 sample(s)")
    assert said.endswith("or leave evaluate out")
    (said,) = remarks(expand(asked(folder, trace={})), folder, tmp_path / "data")
    assert said.startswith("four is served at its batch of 4, batching off: ")


def test_plan_says_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``inferbench plan`` of a file that was inspected: beside the table for people, in the document for programs."""
    monkeypatch.setenv(settings.DATA_DIR, str(tmp_path / "data"))
    inspected(folder, tmp_path / "data")
    asked(folder)
    told = "four is served at its batch of 4, batching off"
    with pytest.raises(SystemExit):
        main(["plan", str(folder / "s.yaml")])
    assert told in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["plan", str(folder / "s.yaml"), "-o", "yaml"])
    assert yaml.safe_load(capsys.readouterr().out)["remarks"][0].startswith(told)


@pytest.mark.parametrize("known", [False, True], ids=["new", "inspected before"])
def test_it_is_refused_before_a_device_is_asked_for(folder: Path, tmp_path: Path, known: bool) -> None:
    """In stage ``generate``, which needs none, whether the file is new or known."""
    if known:
        inspected(folder, tmp_path / "data")
    (job,) = expand(asked(folder, serve={"batching": {}}))
    inp = generate.Input(run_id="r", job_id="j", job=job.spec)
    context = Context(data_dir=tmp_path / "data", base_dir=folder)
    with pytest.raises(InputError, match=r"takes exactly 4 .*leave batching out"):
        generate.without_child(inp, context) or generate.run(inp, context)


def test_who_takes_such_a_model_is_asked_of_the_backends(folder: Path, tmp_path: Path) -> None:
    """A job for one that does not is told each of those that do: all that say so of themselves, and reach a format of
    theirs from ONNX.
    """
    inspected(folder, tmp_path / "data")
    (said,) = remarks(expand(asked(folder, serve={"backend": "triton"})), folder, tmp_path / "data")
    named = said.partition(", or take ")[2].removesuffix(", at its batch of 4").split(" or ")
    assert said.startswith("One job would be refused: serve.backend: four takes exactly 4 sample(s)")
    assert tuple(named) == takers("onnx") and {"onnxruntime", "openvino"} <= set(named)
    assert all(BACKENDS.load(kind).fixed_batches for kind in named)
    assert "onnxruntime" not in takers("torchscript") and takers("gguf") == ()
