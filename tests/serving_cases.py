"""Small real models and the inputs of ``serve`` for them; used by the tests of servers and backends."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.contracts.handles import ModelArtifact, RequestSet, TensorSpec
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.stages import convert, generate, load, release, serve
from inferbench_tasks.stages.base import Context
from tests.made_once import made_once, shared_folder

FEATURES = 6
CLASSES = 4


@dataclass(frozen=True)
class Case:
    """A model on disk, samples, and its answers computed by numpy."""

    model: ModelArtifact
    samples: dict[str, NDArray[Any]]
    reference: dict[str, NDArray[Any]]


def dense_weights() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights and bias of the dense layer, always the same."""
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(FEATURES, CLASSES)).astype(np.float32)
    return weights, rng.normal(size=CLASSES).astype(np.float32)


def dense_case(folder: Path, dynamic: bool = False) -> Case:
    """``scores = x @ W + b`` in ONNX; with ``dynamic``, x is ``[batch, length, features]``, any length."""
    weights, bias = dense_weights()
    middle: list[str | int] = ["length"] if dynamic else []
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["xw"]), helper.make_node("Add", ["xw", "b"], ["scores"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *middle, FEATURES])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", *middle, CLASSES])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "dense.onnx"
    onnx.save(model, path)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(32, *([5] if dynamic else []), FEATURES)).astype(np.float32)
    free = (-1,) if dynamic else ()
    artifact = ModelArtifact(
        name="dense",
        framework="onnx",
        format="onnx",
        path=str(path),
        digest="0" * 64,
        inputs=(TensorSpec(name="x", dtype="float32", shape=(*free, FEATURES)),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(*free, CLASSES)),),
    )
    return Case(artifact, {"x": x}, {"scores": x @ weights + bias})


def bare_case(folder: Path) -> Case:
    """Of each sample one number and one text: twice the number, and the text's number in a table."""
    graph = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["twice"]),
            helper.make_node(
                "LabelEncoder", ["word"], ["found"], domain="ai.onnx.ml",
                keys_strings=["cat", "dog"], values_int64s=[1, 2], default_int64=-1,
            ),
        ],
        "bare",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"]),
         helper.make_tensor_value_info("word", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info("twice", TensorProto.FLOAT, ["n"]),
         helper.make_tensor_value_info("found", TensorProto.INT64, ["n"])],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    path = folder / "bare.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), path)
    artifact = ModelArtifact(
        name="bare",
        framework="onnx",
        format="onnx",
        path=str(path),
        digest="0" * 64,
        inputs=(
            TensorSpec(name="x", dtype="float32", shape=()),
            TensorSpec(name="word", dtype="str", shape=()),
        ),
        outputs=(
            TensorSpec(name="twice", dtype="float32", shape=()),
            TensorSpec(name="found", dtype="int64", shape=()),
        ),
    )
    x = np.array([1.5, -2.0, 0.0, 7.25], np.float32)
    words = np.array(["cat", "none", "dog", "\u00e4"], dtype=np.str_)
    return Case(artifact, {"x": x, "word": words}, {"twice": 2 * x, "found": np.array([1, -1, 2, -1])})


def serve_input(
    case: Case,
    folder: Path,
    run_id: str = "run",
    *,
    tolerance_ratio: float = 1e-4,
    load: dict[str, Any] | None = None,
    **spec: Any,
) -> serve.Input:
    """What ``serve`` takes, with the requests and their reference written to disk; ``spec`` is ``serve:``."""
    np.savez(folder / "requests.npz", allow_pickle=False, **case.samples)
    np.savez(folder / "reference.npz", allow_pickle=False, **case.reference)
    requests = RequestSet(
        path=str(folder / "requests.npz"),
        reference_path=str(folder / "reference.npz"),
        samples=len(next(iter(case.samples.values()))),
        digest="0" * 64,
    )
    job = {
        "name": "test",
        "model": {"kind": "zoo", "name": "dense"},
        "serve": {"ready_timeout_s": 60.0, **spec},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 10.0}, **(load or {})},
    }
    return serve.Input.model_validate(
        {
            "run_id": run_id,
            "job_id": "job",
            "job": job,
            "generate": generate.Output(model=case.model, requests=requests, cached=True),
            "convert": convert.Output(
                model=case.model,
                difference_ratio=0.0,
                tolerance_ratio=tolerance_ratio,
                accuracy_ratio=None,
                cached=True,
            ),
        }
    )


def server_config(case: Case, folder: Path, **changes: Any) -> ServerConfig:
    """A configuration of our own server for a case."""
    return ServerConfig(
        engine="onnxruntime",
        model_name=case.model.name,
        model_path=case.model.path,
        inputs=case.model.inputs,
        outputs=case.model.outputs,
        address_path=str(folder / "address.json"),
        **changes,
    )


@contextmanager
def running_server(
    config: ServerConfig, folder: Path, module: str = "inferbench_tasks.servers.main"
) -> Iterator[dict[str, int]]:
    """Our server as a process; gives its ports once the address is told, and ends it afterwards."""
    config_path = folder / "config.json"
    config_path.write_text(config.model_dump_json())
    command = [sys.executable, "-m", module, "--config", str(config_path)]
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not Path(config.address_path).exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((folder / "server.log").read_text())
            time.sleep(0.01)
        yield json.loads(Path(config.address_path).read_bytes())["ports"]
    finally:
        process.terminate()
        process.wait(timeout=10)


def dense_as(format_: str, folder: Path, dynamic: bool = False) -> Case:
    """The dense model in a format, made by that format's own library; the same samples and answers."""
    folder.mkdir(parents=True, exist_ok=True)
    case = dense_case(folder, dynamic)
    if format_ == "onnx":
        return case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about themselves
        path = MAKERS[format_](case, folder, dynamic)
    model = case.model.model_copy(update={"format": format_, "path": str(path)})
    return Case(model, case.samples, case.reference)


def _torchscript(case: Case, folder: Path, dynamic: bool) -> Path:
    import torch

    weights, bias = dense_weights()
    layer = torch.nn.Linear(FEATURES, CLASSES)
    layer.weight.data, layer.bias.data = torch.from_numpy(weights.T.copy()), torch.from_numpy(bias)
    path = folder / "dense.pt"
    torch.jit.script(layer.eval()).save(str(path))
    return path


def _pt2(case: Case, folder: Path, dynamic: bool) -> Path:
    import torch

    weights, bias = dense_weights()
    layer = torch.nn.Linear(FEATURES, CLASSES)
    layer.weight.data, layer.bias.data = torch.from_numpy(weights.T.copy()), torch.from_numpy(bias)
    x = torch.from_numpy(case.samples["x"])
    free = dict.fromkeys(range(2 if dynamic else 1), torch.export.Dim.AUTO)
    path = folder / "dense.pt2"
    torch.export.save(torch.export.export(layer.eval(), (x,), dynamic_shapes=(free,)), str(path))
    return path


def _aotinductor(case: Case, folder: Path, dynamic: bool) -> Path:
    from inferbench_tasks.formats.aotinductor import AotInductorFormat
    from inferbench_tasks.formats.base import Settings

    exported = case.model.model_copy(update={"format": "pt2", "path": str(_pt2(case, folder, dynamic))})
    form = AotInductorFormat()
    form.convert(exported, folder, Settings("fp32", {}))
    return folder / form.file


def _openvino(case: Case, folder: Path, dynamic: bool) -> Path:
    import openvino

    path = folder / "dense.xml"
    openvino.save_model(openvino.convert_model(case.model.path), str(path), compress_to_fp16=False)
    return path


def _savedmodel(case: Case, folder: Path, dynamic: bool) -> Path:
    path = folder / "dense_savedmodel"
    shutil.copytree(_saved_models() / str(dynamic), path)
    return path


def _tflite(case: Case, folder: Path, dynamic: bool) -> Path:
    path = folder / "dense.tflite"
    shutil.copyfile(_saved_models() / f"{dynamic}.tflite", path)
    return path


@cache
def _saved_models() -> Path:
    """Both, and TFLite files of them: made once, in a process of its own, for TensorFlow stays in one for good."""
    if suite := shared_folder():
        return made_once(suite, "saved-models", _save_models)
    folder = Path(tempfile.mkdtemp(prefix="inferbench-saved-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _save_models(folder)
    return folder


def _save_models(folder: Path) -> None:
    weights, bias = dense_weights()
    np.savez(folder / "weights.npz", w=weights, b=bias)
    script = (
        "import sys, numpy as np, tensorflow as tf\n"
        "given = np.load(sys.argv[1])\n"
        "def save(name, shape):\n"
        "    module = tf.Module(); module.w = tf.Variable(given['w']); module.b = tf.Variable(given['b'])\n"
        "    spec = tf.TensorSpec(shape, tf.float32, name='x')\n"
        "    call = tf.function(lambda x: {'scores': tf.tensordot(x, module.w, 1) + module.b}, [spec])\n"
        "    module.call = call\n"
        "    signatures = {'serving_default': call.get_concrete_function()}\n"
        "    tf.saved_model.save(module, sys.argv[2] + '/' + name, signatures=signatures)\n"
        "    converter = tf.lite.TFLiteConverter.from_saved_model(sys.argv[2] + '/' + name)\n"
        "    open(sys.argv[2] + '/' + name + '.tflite', 'wb').write(converter.convert())\n"
        "save('False', [None, 6]); save('True', [None, None, 6])\n"
    )
    command = [sys.executable, "-c", script, str(folder / "weights.npz"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


MAKERS = {
    "torchscript": _torchscript,
    "pt2": _pt2,
    "aotinductor": _aotinductor,
    "openvino": _openvino,
    "savedmodel": _savedmodel,
    "tflite": _tflite,
}


@contextmanager
def served(inp: serve.Input, ctx: Context) -> Iterator[serve.Output]:
    """The stage ``serve``, and ``release`` in the end."""
    output = serve.run(inp, ctx)
    try:
        yield output
    finally:
        release.run(release.Input(run_id=inp.run_id, job_id=inp.job_id, job=inp.job, serve=output), ctx)


def to_load(inp: serve.Input, output: serve.Output) -> load.Input:
    """What ``load`` takes of it."""
    return load.Input(run_id=inp.run_id, job_id=inp.job_id, job=inp.job, generate=inp.generate, serve=output)
