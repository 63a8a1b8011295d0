"""One run of an ONNX graph with all of its values exposed as outputs: what shapes and contents there really are.

The one place that knows: what counts costs (``costs.py``) and what cuts a model into bricks (``bricks/``) ask it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError


def run_exposed(model: Any, feeds: Arrays, weights: Path | None = None) -> dict[str, Any]:
    """Every value that the main graph's operators write, and its inputs, by name.

    ``model``: an ``onnx.ModelProto``; ``feeds``: its inputs, others in it are ignored; ``weights``: the folder of the
    weights that lie outside of the model. A sequence or a map is given as ONNX Runtime does (a list or a dict); weights
    are left out. Optimisations are off, so that the graph that runs is the one that was given.

    Raises InputError where the model can't be run like that.
    """
    import onnx
    import onnxruntime as ort

    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    outputs = {output.name for output in exposed.graph.output}
    for node in exposed.graph.node:
        for name in node.output:
            if name and name not in outputs:
                outputs.add(name)
                exposed.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    # For one run it costs more than it saves.
    options.add_session_config_entry("session.disable_prepacking", "1")
    if weights:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    try:
        session = ort.InferenceSession(
            exposed.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        input_names = {value.name for value in session.get_inputs()}
        arrays = session.run(names, {n: a for n, a in feeds.items() if n in input_names})
    except Exception as error:
        raise InputError(f"The model can't be run with its values exposed: {error}") from error
    return dict(zip(names, arrays, strict=True)) | feeds
