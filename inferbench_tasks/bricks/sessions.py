"""A brick's network in ONNX Runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import onnx_ir as ir

#: Protobuf's limit is 2 GiB: what is larger goes through a file, its weights beside it.
_MAX_IN_ONE_FILE = 1_900_000_000


def open_network(model: ir.Model) -> Any:
    """A session on one thread that runs the network as it is, without optimisations."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    if weights_bytes(model) < _MAX_IN_ONE_FILE:
        ir.external_data.load_to_model(model)
        return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=providers)
    with tempfile.TemporaryDirectory(prefix="inferbench-brick-") as folder:
        path = save_network(model, Path(folder) / "brick.onnx")
        return ort.InferenceSession(str(path), options, providers=providers)


def open_file(path: Path, *, threads: int, optimise: bool) -> Any:
    """A session on a file with the settings of the servers (``servers/engines/onnxruntime.py``); ``optimise``: whether
    its graph is still to be optimised, as that of a model that is served is."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def save_network(model: ir.Model, path: Path) -> Path:
    """Write the network with all its weights: in the file, or beside it where they are too many for one."""
    large = weights_bytes(model) >= _MAX_IN_ONE_FILE
    if not large:
        ir.external_data.load_to_model(model)
    ir.save(model, path, external_data=f"{path.name}.weights" if large else None)
    return path


def weights_bytes(model: ir.Model) -> int:
    """The bytes of all constants of the network, those of bodies included."""
    graphs = (model.graph, *model.graph.subgraphs())
    tensors = (value.const_value for graph in graphs for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
