"""Files of other formats with a batch of their own: made free and right within and beyond it, or served at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from inferbench_tasks.artifacts.cache import ArtifactCache
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch, noise_like
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.calls import by_calls
from inferbench_tasks.formats.conversion import convert_model
from inferbench_tasks.modelrepo import own_batch
from inferbench_tasks.modelrepo.build import build_model
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.file_operators import operators
from inferbench_tasks.submission.model import FileModel
from tests.contract.odd_graphs import CASES

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
FREED = "was made free, and proved at batch 1, 2, 7"


def built(folder: Path, path: str, **fields: Any) -> ModelArtifact:
    source = FileSource(FileModel(kind="file", path=path, **fields), folder)
    return build_model(source, folder / "data", Watch())


def require_as_the_file(model: ModelArtifact) -> None:
    """The changed model answers as the file does, which is kept beside it."""
    predict, original = FORMATS.load(model.format)().open(model), own_batch.original(model)
    assert original is not None
    for rows in (1, 2, 7, 19):
        samples = {s.name: noise_like(s, rows, np.random.default_rng(rows)) for s in model.inputs}
        answer, expected = predict(samples), original(samples)
        for name, right in expected.items():
            assert len(answer[name]) == rows
            np.testing.assert_allclose(answer[name], right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("graph", "becomes"),
    [
        ("free already", None),
        ("a batch of 4", FREED),
        ("Reshape to 1 and the rest", FREED),
        ("class tokens of 4", "can't be made free: its outputs have no free first axis then"),
    ],
)
def test_openvino(tmp_path: Path, graph: str, becomes: str | None) -> None:
    """An IR with its weights beside it, named by its ports, its operators counted."""
    openvino = pytest.importorskip("openvino")
    onnx.save(CASES[graph][0](), tmp_path / "m.onnx")
    openvino.save_model(
        openvino.convert_model(str(tmp_path / "m.onnx")), tmp_path / "net.xml", compress_to_fp16=False
    )
    model = built(tmp_path, "net.xml")
    assert model.format == "openvino" and model.inputs[0].name == "x"
    assert operators("openvino", tmp_path / "net.xml").keys() & {"MatMul", "Softmax", "Concat"}
    if becomes is None:
        assert model.batch_size is None and model.adapted == ()
    elif becomes == FREED:
        assert model.batch_size is None and becomes in model.adapted[0]
        require_as_the_file(model)
    else:
        assert model.batch_size == 4 and becomes in model.adapted[0]
    (tmp_path / "net.bin").unlink()
    with pytest.raises(InputError, match=r"net.bin is not there"):
        built(tmp_path, "net.xml")


def save_signatures(folder: Path, **signatures: tuple[str, list[tuple[str, list[int | None]]]]) -> None:
    """A SavedModel with these signatures: which function, and its inputs."""
    import tensorflow as tf

    class Network(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.weights = tf.Variable(tf.random.stateless_normal((8, 3), (1, 2)))

        @tf.function  # type: ignore[untyped-decorator]
        def score(self, x: Any) -> Any:
            return {"scores": tf.nn.softmax(tf.reshape(x, [x.shape[0] or -1, 8]) @ self.weights)}

        @tf.function  # type: ignore[untyped-decorator]
        def difference(self, b: Any, a: Any) -> Any:
            return {"sum": tf.reduce_sum(a * b, axis=1, keepdims=True), "minus": a - 2 * b}

        @tf.function  # type: ignore[untyped-decorator]
        def mixed(self, x: Any) -> Any:
            return {"o": x / tf.reduce_sum(x)}

    network = Network()
    functions = {
        name: getattr(network, kind).get_concrete_function(
            *[tf.TensorSpec(shape, tf.float32, name=given) for given, shape in inputs]
        )
        for name, (kind, inputs) in signatures.items()
    }
    tf.saved_model.save(network, str(folder), signatures=functions)


def test_savedmodel(tmp_path: Path) -> None:
    """Its batch is made free, with two inputs in either order; one whose rows influence each other keeps it."""
    pytest.importorskip("tensorflow")
    save_signatures(tmp_path / "one", serving_default=("score", [("x", [1, 2, 4])]))
    model = built(tmp_path, "one")
    assert model.batch_size is None and FREED in model.adapted[0]
    require_as_the_file(model)
    save_signatures(tmp_path / "two", serving_default=("difference", [("b", [4, 3]), ("a", [4, 3])]))
    model = built(tmp_path, "two")
    assert model.batch_size is None, model.adapted
    require_as_the_file(model)
    save_signatures(tmp_path / "mixed", serving_default=("mixed", [("x", [4, 3])]))
    model = built(tmp_path, "mixed")
    assert model.batch_size == 4 and "can't be made free: at batch" in model.adapted[0]


def test_signatures(tmp_path: Path) -> None:
    """Of several one is chosen by its name; without, they are listed; a single one is taken, whatever its name."""
    pytest.importorskip("tensorflow")
    x: list[tuple[str, list[int | None]]] = [("x", [None, 2, 4])]
    both: list[tuple[str, list[int | None]]] = [("b", [None, 3]), ("a", [None, 3])]
    save_signatures(tmp_path / "net", score=("score", x), other=("difference", both))
    for wanted, message in (
        (None, "choose one by model.signature: other, score"),
        ("no", "no signature 'no'; it has"),
    ):
        with pytest.raises(InputError, match=message):
            built(tmp_path, "net", signature=wanted)
    model = built(tmp_path, "net", signature="other")
    assert {s.name for s in model.inputs} == {"a", "b"} and model.adapted == (
        "the signature other is served",
    )
    ones = np.ones((2, 3), np.float32)
    answer = FORMATS.load("savedmodel")().open(model)({"a": 5 * ones, "b": ones})
    np.testing.assert_allclose(answer["minus"], 3 * ones)
    np.testing.assert_allclose(answer["sum"], [[15], [15]])
    assert operators("savedmodel", tmp_path / "net", "other")["Sub"] == 1
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(InputError, match="no SavedModel: leave signature out"):
        built(tmp_path, "m.onnx", signature="other")


def save_tflite(path: Path, shape: list[int | None], kind: str = "score") -> None:
    """A TFLite file of one signature, made by TensorFlow's converter."""
    import tensorflow as tf

    save_signatures(path.parent / kind, serving_default=(kind, [("x", shape)]))
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(path.parent / kind)).convert())


@pytest.mark.parametrize(
    ("shape", "kind", "becomes"),
    [
        ([None, 2, 4], "score", None),
        ([1, 2, 4], "score", "can't be made free"),
        ([4, 3], "mixed", "can't be made free: at batch"),
    ],
)
def test_tflite(tmp_path: Path, shape: list[int | None], kind: str, becomes: str | None) -> None:
    """Its signature's names; a free batch is right at any, one that is in the file's shapes is kept; what is no TFLite
    file is refused.
    """
    pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")
    save_tflite(tmp_path / "m.tflite", shape, kind)
    model = built(tmp_path, "m.tflite")
    assert model.format == "tflite" and model.inputs[0].name == "x"
    assert operators("tflite", tmp_path / "m.tflite").keys() & {"FULLY_CONNECTED", "BATCH_MATMUL", "DIV"}
    if becomes is None:
        assert model.batch_size is None and model.adapted == ()
        predict = FORMATS.load("tflite")().open(model)
        samples = {s.name: noise_like(s, 19, np.random.default_rng(1)) for s in model.inputs}
        whole = predict(samples)["scores"]
        parts = [predict({"x": samples["x"][at : at + 1]})["scores"] for at in range(19)]
        np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-5)
    else:
        assert model.batch_size == shape[0] and becomes in model.adapted[0]
    (tmp_path / "no.tflite").write_bytes(b"no flat file")
    with pytest.raises(InputError, match="LiteRT can't run no.tflite"):
        built(tmp_path, "no.tflite")


def test_tflite_with_variables(tmp_path: Path) -> None:
    """A file that keeps values between runs is refused, with the remedy: answers would depend on earlier requests."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("ai_edge_litert")

    class Summing(tf.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.kept = tf.Variable(tf.ones([4]))

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])  # type: ignore[untyped-decorator]
        def score(self, x: Any) -> Any:
            self.kept.assign_add(tf.reduce_sum(x, axis=0))
            return {"scores": x * self.kept}

    net = Summing()
    tf.saved_model.save(net, str(tmp_path / "net"), signatures={"serving_default": net.score})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "net"))
    converter.experimental_enable_resource_variables = True
    (tmp_path / "m.tflite").write_bytes(converter.convert())
    with pytest.raises(InputError, match=r"m\.tflite has variables.*from_concrete_functions"):
        built(tmp_path, "m.tflite")


def traced(kind: str, batch: int) -> Any:
    """A network whose shapes have the batch as a number."""
    import torch

    class Viewed(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: Any) -> Any:
            return self.linear(x.view(batch, 2, 8)).reshape(batch, -1).softmax(1)

    class Recurrent(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(8, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            state = torch.zeros(1, batch, 4)
            return self.lstm(x.view(batch, 2, 8), (state, state))[0].reshape(batch, -1)

    class Heads(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            heads = x.view(batch, 4, 4)
            return (heads.softmax(2) @ heads.transpose(1, 2)).reshape(batch, 16)[:, ::2]

    class Moved(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.t().reshape(8, 2, batch).softmax(1)[:, 0].t()

    class Cut(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x[:batch, ::2] * 2.0

    class Decibels(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            power = torch.log10((x.view(batch, 8, 2) ** 2).mean(2).clamp(min=1e-10))
            return torch.maximum(power, power.max() - 8.0)

    kinds: dict[str, Any] = {
        "view": Viewed, "lstm": Recurrent, "heads": Heads, "moved": Moved, "cut": Cut, "decibels": Decibels,
    }  # fmt: skip
    module = kinds[kind]().eval()
    return torch.jit.trace(module, torch.zeros(batch, 16), check_trace=False)


@pytest.mark.parametrize(
    ("kind", "batch", "becomes"),
    [
        ("view", 1, FREED),
        ("view", 4, FREED),
        ("heads", 4, FREED),
        ("moved", 4, FREED),
        ("cut", 8, "can't be made free: at batch 17 output y has shape [8, 8]"),
        (
            "decibels",
            1,
            "can't be made free: for a sample times 1e-6 among louder and quieter ones output y differs",
        ),
        ("lstm", 4, "can't be made free: model.path: lstm may have a state"),
    ],
)
def test_torchscript(tmp_path: Path, kind: str, batch: int, becomes: str) -> None:
    """Traced for one batch, which its signature says, and which another size may be by chance."""
    pytest.importorskip("torch")
    traced(kind, batch).save(str(tmp_path / "m.pt"))
    told: dict[str, Any] = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [16]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [8]}],
        "batch_size": batch,
    }
    (tmp_path / "m.pt.signature.json").write_text(json.dumps(told))
    model = built(tmp_path, "m.pt")
    assert becomes.removeprefix("can't be made free: model.path: ") in model.adapted[0]
    assert operators("torchscript", tmp_path / "m.pt").keys() & {"view", "reshape", "slice"}
    if becomes == FREED:
        assert model.batch_size is None
        require_as_the_file(model)
    else:
        assert model.batch_size == batch
        samples = {s.name: noise_like(s, 7, np.random.default_rng(1)) for s in model.inputs}
        answer = by_calls(FORMATS.load("torchscript")().open(model), samples, batch)
        assert answer["y"].shape == (7, 8)


def test_a_wrong_change_is_found() -> None:
    """A model that answers something else at batch 7 only is not taken for the file."""
    inputs = (TensorSpec(name="x", dtype="float32", shape=(3,)),)

    def whole(arrays: Arrays) -> Arrays:
        return {"y": arrays["x"] * 2}

    def wrong(arrays: Arrays) -> Arrays:
        return {"y": arrays["x"] * np.float32(2 if len(arrays["x"]) < 7 else 2.01)}

    assert own_batch.proof(whole, whole, inputs, 4) is None
    assert "at batch 7 output y differs" in str(own_batch.proof(whole, wrong, inputs, 4))


NETWORK = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.inner(x.reshape(2, 6)).reshape(4, 1)

def build():
    return Net()
"""


def test_weights_of_a_network_that_takes_one_batch_keep_it(tmp_path: Path) -> None:
    """Two samples of three numbers stand in a row of its matrix product, so it takes four in each call, as its
    signature says: that stays with the model, and every form of it answers four samples as numpy does.
    """
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(2, 6, generator=generator), torch.randn(2, generator=generator)
    save_file({"inner.weight": weight, "inner.bias": bias}, tmp_path / "net.safetensors")
    (tmp_path / "net.py").write_text(NETWORK)
    told = {
        "inputs": [{"name": "x", "dtype": "float32", "shape": [3]}],
        "outputs": [{"name": "y", "dtype": "float32", "shape": [1]}],
        "batch_size": 4,
    }
    (tmp_path / "net.safetensors.signature.json").write_text(json.dumps(told))
    model = built(tmp_path, "net.safetensors", module="net.py")
    assert (model.batch_size, model.parameters) == (4, 14)
    assert model.adapted == ("its signature says that it takes 4 in each call",)
    samples = np.random.default_rng(2).normal(size=(4, 3)).astype(np.float32)
    right = (samples.reshape(2, 6) @ weight.numpy().T + bias.numpy()).reshape(4, 1)
    conversions = ArtifactCache(tmp_path / "conversions")
    for form in ("torch", "torchscript", "pt2", "onnx"):
        of = model if form == "torch" else convert_model(model, form, "fp32", conversions).model
        assert of.batch_size == 4, form
        answer = FORMATS.load(form)().open(of)({"x": samples})
        np.testing.assert_allclose(answer["y"], right, rtol=1e-4, atol=1e-5, err_msg=form)
