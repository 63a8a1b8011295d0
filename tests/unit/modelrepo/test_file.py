"""Model files of the user's: safe formats are read, everything else is refused before it is opened."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.backends.base import Backend
from inferbench_tasks.backends.onnxruntime import OnnxRuntime
from inferbench_tasks.backends.triton import Triton
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.onnx_batch import Freed
from inferbench_tasks.modelrepo.build import build_model, cost_for_requests, find_cost_for_requests
from inferbench_tasks.modelrepo.file import FileSource
from inferbench_tasks.modelrepo.onnx_file import ORIGINAL, original
from inferbench_tasks.stages.convert import _require_whole
from inferbench_tasks.stages.fixed_batch import check_batch
from inferbench_tasks.submission.model import FileModel
from inferbench_tasks.submission.schema import JobSpec
from tests.gguf_files import written


def source(folder: Path, path: str, form: str | None = None) -> FileSource:
    return FileSource(FileModel(kind="file", path=path, format=form), folder)


def dense(batch: str | int = "batch", operator: str = "MatMul") -> Any:
    weights = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def make(found: FileSource, folder: Path) -> Any:
    target = folder / "made"
    target.mkdir()
    return found.make(target, Watch())


def test_an_onnx_file_tells_its_signature(tmp_path: Path) -> None:
    """Inputs and outputs come without the batch axis; the file is copied."""
    onnx.save(dense(), tmp_path / "my model.onnx")
    found = source(tmp_path, "my model.onnx")
    made = make(found, tmp_path)
    assert found.name == "my-model" and made.format == "onnx"
    assert [(s.name, s.dtype, s.shape) for s in (*made.inputs, *made.outputs)] == [
        ("x", "float32", (4,)),
        ("y", "float32", (2,)),
    ]


def test_an_onnx_file_that_came_quantised_is_not_called_fp32(tmp_path: Path) -> None:
    """By its weights, also in the model that is made of it; another precision is not made of those."""
    given = dense()
    (weights,) = given.graph.initializer
    quantised = numpy_helper.from_array(np.ones((4, 2), np.int8), "q")
    given.graph.initializer.extend([quantised, numpy_helper.from_array(np.full((), 0.5, np.float32), "s")])
    given.graph.initializer.remove(weights)
    given.graph.node.insert(0, helper.make_node("DequantizeLinear", ["q", "s"], ["w"]))
    onnx.save(given, tmp_path / "m.onnx")
    made = build_model(source(tmp_path, "m.onnx"), tmp_path, Watch())
    assert made.precision == "int8"
    _require_whole(made, "fp32")
    with pytest.raises(InputError, match=r"m comes in int8.*leave convert\.precision out") as refused:
        _require_whole(made, "fp16")
    assert refused.value.field == "convert.precision"


def test_external_weights_travel_along(tmp_path: Path) -> None:
    """A model whose weights lie in a second file still loads from the cache."""
    onnx.save(dense(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    made = make(source(tmp_path, "m.onnx"), tmp_path)
    assert (tmp_path / "made" / "w.bin").is_file() and made.inputs[0].shape == (4,)


def test_external_weights_elsewhere_are_refused(tmp_path: Path) -> None:
    """A model can't make us read /etc/passwd as weights."""
    inside = tmp_path / "inside"
    inside.mkdir()
    onnx.save(dense(), inside / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    model = onnx.load(inside / "m.onnx", load_external_data=False)
    for entry in model.graph.initializer[0].external_data:
        if entry.key == "location":
            entry.value = "../secret"
    (tmp_path / "secret").write_bytes(b"\0" * 64)
    (inside / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"external data of w: ../secret leads out"):
        source(inside, "m.onnx").settings()


def test_missing_external_weights_are_named(tmp_path: Path) -> None:
    """The message has the tensor and the file."""
    onnx.save(dense(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(InputError, match=r"external data of w: w\.bin is not there"):
        source(tmp_path, "m.onnx").settings()


def test_a_fixed_batch_is_made_free(tmp_path: Path) -> None:
    """The file's own graph stays beside it, and answers the run's requests, as many to a call as it takes."""
    onnx.save(dense(batch=4), tmp_path / "m.onnx")
    made = make(source(tmp_path, "m.onnx"), tmp_path)
    assert made.batch_size is None and made.adapted == (
        "the batch of 4 was made free, and proved at batch 1, 2, 7, 9",
    )
    own = original(tmp_path / "made" / "model.onnx")
    samples = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    weights = onnx.numpy_helper.to_array(onnx.load(tmp_path / "m.onnx").graph.initializer[0])
    assert own is not None
    np.testing.assert_allclose(own({"x": samples})["y"], samples @ weights, rtol=1e-5)


def test_a_changed_graph_that_answers_otherwise_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours in a graph is found by its answers: the file is served as it is."""
    run = Freed.run

    def wrong(self: Freed) -> None:
        run(self)
        weights = self.graph.initializer[0]
        weights.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights) * 1.001, weights.name))

    monkeypatch.setattr(Freed, "run", wrong)
    onnx.save(dense(batch=4), tmp_path / "m.onnx")
    made = make(source(tmp_path, "m.onnx"), tmp_path)
    assert made.batch_size == 4 and "at batch 1 output y differs by 0.001" in made.adapted[0]
    assert not (tmp_path / "made" / ORIGINAL).exists()
    assert onnx.load(tmp_path / "made" / "model.onnx") == onnx.load(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("backend", "serve", "load", "trace", "says"),
    [
        (Triton, {}, {"batch_size": 4}, None, "serves models with a free batch"),
        (OnnxRuntime, {"batching": {}}, {"batch_size": 4}, None, "leave batching out"),
        (OnnxRuntime, {}, {}, None, "set batch_size: 4"),
        (
            OnnxRuntime,
            {},
            {"batch_size": 4},
            {"batch_size": 8},
            "leave it out, and requests are traced with so many",
        ),
        (OnnxRuntime, {}, {"batch_size": 4}, {"batch_size": 4}, None),
        (OnnxRuntime, {}, {"batch_size": 4}, {"batch_size": "load"}, None),
        (OnnxRuntime, {}, {"batch_size": 4}, {}, None),
    ],
)
def test_a_model_of_its_own_batch_is_asked_for_that(
    backend: type[Backend],
    serve: dict[str, Any],
    load: dict[str, Any],
    trace: dict[str, Any] | None,
    says: str | None,
) -> None:
    """What can't be is refused before a server starts, with what was tried to make the batch free."""
    job = JobSpec.model_validate(
        {
            "name": "j",
            "model": {"kind": "file", "path": "m.onnx"},
            "serve": serve,
            "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}, **load},
            "trace": trace,
        }
    )
    model = ModelArtifact(
        name="m", framework="onnx", format="onnx", path="", digest="", inputs=(), outputs=(), batch_size=4,
        adapted=("the batch of 4 can't be made free: Concat (y) is along the batch axis",),
    )  # fmt: skip
    if says is None:
        return check_batch(job, backend, model)
    with pytest.raises(InputError, match=rf"takes exactly 4 .*Concat \(y\).*{says}"):
        check_batch(job, backend, model)


def test_an_unknown_operator_is_named(tmp_path: Path) -> None:
    """What the runtime lacks is in the message."""
    onnx.save(dense(operator="Teleport"), tmp_path / "mine.onnx")
    with pytest.raises(
        InputError, match=r"model\.path: .*mine\.onnx.*Teleport.*Export it with standard operators"
    ):
        make(source(tmp_path, "mine.onnx"), tmp_path)


def _one(operator: str, kind: int, inputs: int = 1, **attributes: Any) -> onnx.ModelProto:
    """A graph of one operator of opset 17 on its only input, or on none."""
    make, names = onnx.helper, ["x"][:inputs]
    shape: list[str | int | None] = ["n"] if kind == onnx.TensorProto.STRING else ["n", 4]
    values = {name: make.make_tensor_value_info(name, kind, shape) for name in "xy"}
    node = make.make_node(operator, names * (2 if operator == "Add" else 1), ["y"], **attributes)
    graph = make.make_graph([node], "g", [values[name] for name in names], [values["y"]])
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (_one("Add", onnx.TensorProto.BFLOAT16), r"Add\(14\).*no CPU kernel of it for these data types"),
        (
            _one("StringNormalizer", onnx.TensorProto.STRING, case_change_action="LOWER", locale="xx_NONE"),
            r"lacks its locale: make it \(locale-gen xx_NONE\)",
        ),
        (
            _one("Constant", onnx.TensorProto.FLOAT, 0, value_floats=[1.0] * 4),
            r"m\.onnx has no inputs: it always answers the same",
        ),
    ],
)
def test_a_standard_operator_is_not_called_another(tmp_path: Path, model: onnx.ModelProto, says: str) -> None:
    """Data types that the runtime has no kernel for, a locale that is not here, a graph that nothing can be asked of:
    each with what helps.
    """
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(InputError, match=says) as refused:
        make(source(tmp_path, "m.onnx"), tmp_path)
    assert "Export it with standard operators" not in str(refused.value)


def test_a_truncated_onnx_file_is_refused(tmp_path: Path) -> None:
    """Half a file is damaged, not a crash."""
    onnx.save(dense(), tmp_path / "m.onnx")
    data = (tmp_path / "m.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=r"damaged|can't be loaded"):
        source(tmp_path, "m.onnx").settings()


@pytest.mark.parametrize("name", ["m.pkl", "m.pth", "m.joblib", "m.keras", "m.h5", "m.bin", "m.exe"])
def test_unsafe_formats_are_refused(tmp_path: Path, name: str) -> None:
    """The refusal names the safe formats, and the file is never opened."""
    (tmp_path / name).write_bytes(pickle.dumps(print))
    with pytest.raises(InputError, match=r"allowed: ONNX .*TorchScript"):
        source(tmp_path, name)


def test_a_pickled_checkpoint_is_not_torchscript(tmp_path: Path) -> None:
    """torch.save writes the same ending; it is told apart without unpickling."""
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("m/data.pkl", pickle.dumps({"a": 1}))
    with pytest.raises(InputError, match="pickled PyTorch checkpoint"):
        safe_files.check_torch_archive(tmp_path / "m.pt", "torchscript")


def test_a_zip_bomb_is_refused(tmp_path: Path) -> None:
    """What unpacks to far more than its size is not unpacked."""
    with zipfile.ZipFile(tmp_path / "m.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/code/x.py", b"\0" * (50 << 20))
    with pytest.raises(InputError, match="would unpack to 52,428,800.*save the model again"):
        safe_files.check_torch_archive(tmp_path / "m.pt", "torchscript")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A changed byte does not pass its checksum."""
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/code/x.py", b"a" * 1000)
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"abaa", 1))
    with pytest.raises(InputError, match="damaged"):
        safe_files.check_torch_archive(path, "torchscript")


def test_a_path_outside_is_refused(tmp_path: Path) -> None:
    """Links are followed before the check."""
    inside = tmp_path / "inside"
    inside.mkdir()
    onnx.save(dense(), tmp_path / "m.onnx")
    (inside / "link.onnx").symlink_to(tmp_path / "m.onnx")
    with pytest.raises(InputError, match="leads out of the submission's folder"):
        source(inside, "link.onnx")


@pytest.mark.parametrize(("name", "content"), [("m.onnx", None), ("m.onnx", b"")])
def test_missing_and_empty_files_are_refused(tmp_path: Path, name: str, content: bytes | None) -> None:
    """Both are said before anything starts."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=r"is not there|is empty"):
        source(tmp_path, name)


def test_a_wrong_format_is_corrected(tmp_path: Path) -> None:
    """A stated format that the file isn't is refused with what it is."""
    onnx.save(dense(), tmp_path / "m.onnx")
    with pytest.raises(InputError, match=r"is onnx, not pt2"):
        source(tmp_path, "m.onnx", "pt2")


def test_torchscript_needs_a_signature(tmp_path: Path) -> None:
    """Without the file beside it the message shows what to write there."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.rand(3, 2)), str(tmp_path / "m.pt"))
    with pytest.raises(InputError, match=r"put m\.pt\.signature\.json beside it.*\"inputs\""):
        make(source(tmp_path, "m.pt"), tmp_path)


def test_external_weights_of_gigabytes_are_taken_and_more_are_refused(tmp_path: Path) -> None:
    """Three GiB beside the model are no obstacle, which protobuf's own limit would be; nine are refused."""
    model = dense()
    weights = model.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    for gib, fits in ((3, True), (9, False)):
        with open(tmp_path / "w.bin", "wb") as file:
            file.truncate(gib << 30)
        if fits:
            assert safe_files.external_data(tmp_path / "m.onnx") == [tmp_path / "w.bin"]
            continue
        with pytest.raises(InputError, match=r"9,663,676,416 bytes of external data, allowed: 8,589,934,592"):
            safe_files.external_data(tmp_path / "m.onnx")


def test_other_external_weights_are_another_model(tmp_path: Path) -> None:
    """The graph's file stays the same byte by byte; conversions and references of the old weights don't fit."""
    digests = []
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        model = dense()
        weights = np.random.default_rng(seed).normal(size=(4, 2)).astype(np.float32)
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
        onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        found = build_model(source(folder, "m.onnx"), tmp_path / "data", Watch())
        digests.append((found.digest, (folder / "m.onnx").read_bytes()))
        assert found.flops == 16, "counted though the weights lie elsewhere"
    assert digests[0][1] == digests[1][1] and digests[0][0] != digests[1][0]


def test_a_free_size_is_counted_as_the_requests_have_it(tmp_path: Path) -> None:
    """A product over a sequence: 16 steps unless the requests say 64."""
    model = dense()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim.insert(1, onnx.TensorShapeProto.Dimension(dim_param="steps"))
    onnx.save(model, tmp_path / "m.onnx")
    found, data = source(tmp_path, "m.onnx"), tmp_path / "data"
    built = build_model(found, data, Watch())
    assert built.flops == 2 * 16 * 4 * 2
    assert find_cost_for_requests(found, built, {"x": [64, 4]}, data) is None
    assert cost_for_requests(found, built, {"x": [64, 4]}, data, Watch()).flops == 2 * 64 * 4 * 2
    cached = find_cost_for_requests(found, built, {"x": [64, 4]}, data)
    assert cached is not None and cached.flops == 2 * 64 * 4 * 2
    assert cost_for_requests(found, built, {"x": [16, 4]}, data, Watch()) == built


def test_parameters_are_known_of_what_can_t_be_run(tmp_path: Path) -> None:
    """A model that refuses made-up sizes has no FLOPs, says why, and has its weights all the same."""
    model = dense()
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[-1].dim_param = "features"
    onnx.save(model, tmp_path / "m.onnx")
    built = build_model(source(tmp_path, "m.onnx"), tmp_path / "data", Watch())
    assert (built.flops, built.parameters) == (None, 8)
    assert built.costs_reason is not None and "can't be run" in built.costs_reason


def test_a_language_model_in_gguf_is_taken_as_it_is(tmp_path: Path) -> None:
    """Its content is its digest; parameters and precision are read of it."""
    path = written(tmp_path)
    found = source(tmp_path, path.name)
    made = make(found, tmp_path)
    assert (found.framework, found.task, found.foreign) == ("gguf", "text-generation", True)
    assert (made.format, made.parameters, made.precision, made.inputs) == ("gguf", 80, "q4_1", ())
    assert (tmp_path / "made" / made.file).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-1], r"m.gguf is cut off: its tensors end at byte"),
        (lambda data: data[:100], r"m.gguf is cut off or damaged"),
        (
            lambda data: data.replace(b"llama", b"whisp"),
            "m.gguf holds a model of the architecture 'whisp'; allowed",
        ),
    ],
)
def test_a_language_model_that_is_none_is_refused_by_its_name(
    tmp_path: Path, change: Any, words: str
) -> None:
    """Before anything is copied."""
    path = written(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=words):
        make(source(tmp_path, path.name), tmp_path)
    assert not list((tmp_path / "made").iterdir())


def test_a_pointer_of_git_lfs_is_no_damaged_model(tmp_path: Path) -> None:
    """What stands in a checkout for a file that was not fetched is named, with the remedy: of a model, and of weights
    beside one.
    """
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    for name in ("m.onnx", "m.pt", "m.tflite", "m.gguf"):
        (tmp_path / name).write_bytes(pointer)
        with pytest.raises(InputError, match=r"is a pointer of Git LFS.*`git lfs pull`"):
            FileSource(FileModel(kind="file", path=name), tmp_path)
    (tmp_path / "net.xml").write_bytes(b"<net/>")
    (tmp_path / "net.bin").write_bytes(pointer)
    with pytest.raises(InputError, match=r"net\.bin is a pointer of Git LFS"):
        FileSource(FileModel(kind="file", path="net.xml"), tmp_path).settings()
