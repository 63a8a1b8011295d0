"""ONNX Runtime on the CPU, with the settings of the servers (``servers/engines/onnxruntime.py``)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.runtimes.base import BrickRuntime, Loaded
from inferbench_tasks.bricks.saving import MAX_IN_ONE_FILE, OUTSIDE_BYTES, save_network, weights_bytes
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError

#: The optimisation level that makes a view's graph; ``source`` is as converted, of ``folded`` dummies are drawn.
_LEVELS = {"runtime": "ORT_ENABLE_ALL", "portable": "ORT_ENABLE_EXTENDED", "folded": "ORT_ENABLE_BASIC"}
_CPU = ["CPUExecutionProvider"]


class OnnxRuntime(BrickRuntime):
    """It writes the graph that it optimised, which is cut; the pieces run with optimisations off."""

    name = "onnxruntime"
    title = "ONNX Runtime"
    views = ("runtime", "portable", "source")
    precisions = ("fp32", "fp16", "int8")

    def version(self) -> str:
        """Of whichever build of it is installed."""
        import onnxruntime

        return str(onnxruntime.__version__)

    def open(self, path: Path, feeds: Arrays, *, threads: int, whole: bool) -> Loaded:
        """A session; the graph of a whole model is still to be optimised."""
        return Session(open_file(path, threads=threads, optimise=whole))

    def optimised(self, path: Path, view: str) -> Path:
        """ONNX Runtime's own graph of a model, beside it. InputError where it can't load the model."""
        level = _LEVELS.get(view)
        return path if level is None else optimised_graph(path, level)

    def answers(self, network: ir.Model, feeds: Arrays) -> list[Array]:
        """In memory: a model has thousands of bricks."""
        return list(open_network(network).run(None, feeds))


class Session(Loaded):
    """A session and its binding."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._outputs = [output.name for output in session.get_outputs()]
        self._feeds: Arrays = {}
        self._binding: Any = None
        self._values: dict[str, Any] = {}

    def answers(self, feeds: Arrays) -> list[Array]:
        """As arrays of the session's own."""
        return list(self._session.run(self._outputs, feeds))

    def bind(
        self, feeds: Arrays, answers: Sequence[Array], onto: Sequence[tuple[int, int]]
    ) -> list[Array] | None:
        """To the arrays themselves: they begin where a buffer of the runtime would."""
        import onnxruntime as ort

        self._feeds = feeds
        if any(array.dtype.kind in "OUS" for array in (*feeds.values(), *map(np.asarray, answers))):
            return None  # texts can't be bound
        self._binding = self._session.io_binding()
        inputs = [ort.OrtValue.ortvalue_from_numpy(array) for array in feeds.values()]
        for name, value in zip(feeds, inputs, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        targets, outputs = dict(onto), []
        for index, (name, answer) in enumerate(zip(self._outputs, answers, strict=True)):
            value = inputs[targets[index]] if index in targets else ort.OrtValue.ortvalue_from_numpy(answer)
            outputs.append(value)
            self._binding.bind_ortvalue_output(name, value)
        self._kept = [*inputs, *outputs]  # the binding does not keep them
        return [np.asarray(value.numpy()) for value in self._kept]

    def run(self) -> None:
        """With the binding where there is one."""
        if self._binding is None:
            self._session.run(self._outputs, self._feeds)
        else:
            self._session.run_with_iobinding(self._binding)


def open_network(model: ir.Model) -> Any:
    """A session on one thread that runs the network as it is, without optimisations."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if weights_bytes(model) < MAX_IN_ONE_FILE:
        ir.external_data.load_to_model(model)
        return ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=_CPU)
    with tempfile.TemporaryDirectory(prefix="inferbench-brick-") as folder:
        path = save_network(model, Path(folder) / "brick.onnx")
        return ort.InferenceSession(str(path), options, providers=_CPU)


def open_file(path: Path, *, threads: int, optimise: bool) -> Any:
    """A session on a file, on the host; see ``session_options``."""
    import onnxruntime as ort

    options = session_options(threads=threads, optimise=optimise)
    return ort.InferenceSession(str(path), options, providers=_CPU)


def session_options(*, threads: int, optimise: bool) -> Any:
    """Of what is timed, as our server's; ``optimise``: whether its graph is still to be optimised, as that of a model
    that is served is."""
    import onnxruntime as ort

    options: Any = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    return options


def optimised_graph(path: Path, level: str) -> Path:
    """That of a level of optimisation on the host, beside the model. InputError where it can't be loaded."""
    import onnxruntime as ort

    target = path.with_name("optimised.onnx")
    options: Any = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # it warns that the graph is of this processor, which its keys say
    options.optimized_model_filepath = str(target)
    entry = options.add_session_config_entry
    entry("session.disable_prepacking", "1")  # it is not run
    # Fusions may make more than the 2 GiB that one file can hold.
    entry("session.optimized_model_external_initializers_file_name", "optimised.weights")
    entry("session.optimized_model_external_initializers_min_size_in_bytes", str(OUTSIDE_BYTES))
    try:
        ort.InferenceSession(str(path), options, providers=_CPU)
    except Exception as error:
        raise InputError(f"ONNX Runtime can't load the model: {error}") from error
    return target
