"""ONNX with a dynamic batch axis, made from every framework; the format that most runtimes read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.cache import MANIFEST, digest_of_files
from inferbench_tasks.artifacts.safe_files import external_data
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import ConversionError, InputError
from inferbench_tasks.formats.base import Format, Predict, Settings
from inferbench_tasks.formats.macs import all_nodes, bodies

#: Read by every runtime that we serve with.
OPSET = 17


class OnnxFormat(Format):
    """ONNX models, run by ONNX Runtime."""

    kind = "onnx"
    title = "ONNX"
    packages = ("onnx", "onnxruntime", "skl2onnx")
    file = "model.onnx"
    sources = {
        "sklearn": ("fp32",),
        "torch": ("fp32",),
        "savedmodel": ("fp32",),
        "onnx": ("fp16", "int8"),
    }
    calibrated = frozenset({"int8"})

    def digest(self, path: Path) -> str:
        """Weights in files beside it included: without them the graph of other weights would be the same model."""
        beside = external_data(path) if _has_neighbours(path) else []
        return digest_of_files([path, *beside]) if beside else super().digest(path)

    def open(self, model: ModelArtifact) -> Predict:
        session = open_session(Path(model.path))
        names = [output.name for output in session.get_outputs()]
        input_names = {value.name for value in session.get_inputs()}

        def predict(arrays: Arrays) -> Arrays:
            values = session.run(names, {n: a for n, a in arrays.items() if n in input_names})
            return dict(zip(names, values, strict=True))

        return predict

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        path, source_path = folder / self.file, Path(source.path)
        if source.format == "sklearn":
            _from_sklearn(source, path)
        elif source.format == "torch":
            from inferbench_tasks.formats import onnx_torch, torch

            onnx_torch.export(torch.load(source_path), source, path, OPSET)
        elif source.format == "savedmodel":
            from inferbench_tasks.formats import onnx_tensorflow

            onnx_tensorflow.export(source, path, OPSET)
        else:
            from inferbench_tasks.formats import onnx_reduced

            if settings.precision == "fp16":
                onnx_reduced.to_fp16(source_path, path)
            else:
                onnx_reduced.to_int8(source_path, path, settings.calibration)
                onnx_reduced.require_quantised(path, source)


def _has_neighbours(path: Path) -> bool:
    """Whether there is any other file: to ask the model itself takes reading all of it."""
    return any(file != path and file.name != MANIFEST for file in path.parent.rglob("*") if file.is_file())


def open_session(path: Path, optimise: bool = True) -> Any:
    """An ONNX Runtime session on one CPU thread; InputError where the file is no whole model."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"The ONNX model {path} can't be loaded: {error}") from error


def signature(session: Any) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Inputs and outputs of a session, without the batch axis."""
    return _specs(session.get_inputs()), _specs(session.get_outputs())


def _specs(values: Any) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=v.name,
            dtype=_dtype(v.type),
            shape=tuple(s if isinstance(s, int) and s > 0 else -1 for s in v.shape[1:]),
        )
        for v in values
    )


def _dtype(onnx_type: str) -> str:
    inner = onnx_type.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64", "string": "str"}.get(inner, inner)


def _from_sklearn(source: ModelArtifact, path: Path) -> None:
    import onnx
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    from inferbench_tasks.formats.sklearn import classifier

    estimator = classifier(Path(source.path))
    (spec,), (output,) = source.inputs, source.outputs
    model = to_onnx(
        estimator,
        initial_types=[(spec.name, FloatTensorType([None, *spec.shape]))],
        options={"zipmap": False},
        target_opset=OPSET,
    )
    if output.name not in {value.name for value in model.graph.output}:
        known = ", ".join(value.name for value in model.graph.output)
        raise ConversionError(f"skl2onnx gave the outputs {known}; {output.name} is needed")
    keep_outputs(model.graph, (output.name,))
    for tensor in model.graph.initializer:
        if len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]  # a bias as a row: it broadcasts alike, and quantisation wants a vector
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def keep_outputs(graph: Any, names: tuple[str, ...]) -> None:
    """Drop the other outputs of an ONNX graph, and the nodes and weights that only they need."""
    outputs = [value for value in graph.output if value.name in names]
    del graph.output[:]
    graph.output.extend(outputs)
    inputs = set(names)
    nodes = []
    for node in reversed(graph.node):
        if inputs & set(node.output):
            inputs |= set(node.input)
            inputs |= {name for body in bodies(node) for inner in all_nodes(body) for name in inner.input}
            nodes.append(node)
    weights = [tensor for tensor in graph.initializer if tensor.name in inputs]
    del graph.node[:]
    graph.node.extend(reversed(nodes))
    del graph.initializer[:]
    graph.initializer.extend(weights)
