"""A program: a small network traced down to its kernels, ``python -m tests.traced_kernels ENGINE FOLDER [gpu]``.

A process of its own: oneDNN reads once whether its lines have moments, and prints to the process's output.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.tracing.spans import write
from tests.serving_cases import Case
from tests.traced_engine import traced

REQUESTS = 4
#: Of its convolution, 2 x outputs x input channels x kernel, and of its product of matrices.
CONVOLUTION_FLOPS, PRODUCT_FLOPS = 2 * 16 * 94 * 94 * 3 * 3 * 3, 2 * 16 * 10


def network(engine: str, folder: Path) -> Case:
    """A convolution of 3 x 96 x 96 with ReLU, the mean of each of 16 channels, and 10 outputs.

    OpenVINO's is of a free batch, ONNX Runtime's written by hand.
    PyTorch does smaller ones without oneDNN.
    """
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(16, 10),
    ).eval()  # fmt: skip
    x = torch.zeros(1, 3, 96, 96)
    names = {"torchscript": "m.pt", "pt2": "m.pt2", "openvino": "m.xml", "onnxruntime": "m.onnx"}
    path = folder / names[engine]
    if engine == "torchscript":
        torch.jit.freeze(torch.jit.trace(module, x)).save(str(path))
    elif engine == "pt2":
        torch.export.save(torch.export.export(module, (x,)), str(path))
    elif engine == "onnxruntime":
        _as_onnx([value.numpy() for value in module.state_dict().values()], path)
    else:
        import openvino

        model = openvino.convert_model(module, example_input=x, input=[-1, 3, 96, 96])
        openvino.save_model(model, str(path), compress_to_fp16=False)
    artifact = ModelArtifact(
        name="network",
        framework="torch",
        format="onnx" if engine == "onnxruntime" else engine,
        path=str(path),
        digest="0" * 64,
        inputs=(TensorSpec(name="x", dtype="float32", shape=(3, 96, 96)),),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(10,)),),
    )
    samples = np.random.default_rng(0).normal(size=(4, 3, 96, 96)).astype(np.float32)
    with torch.inference_mode():
        answers = module(torch.from_numpy(samples)).numpy()
    return Case(artifact, {"x": samples}, {"scores": answers})


def _as_onnx(weights: list[np.ndarray[Any, Any]], path: Path) -> None:
    """The network of these weights and biases, of its convolution and of its outputs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    names = ("conv_w", "conv_b", "w", "b")
    nodes = [
        helper.make_node("Conv", ["x", "conv_w", "conv_b"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 96, 96])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(value, name) for value, name in zip(weights, names, strict=True)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def main(engine: str, folder: Path, device: str = "cpu") -> None:
    """Write the spans, and what is known of them all; the exit code is how many runs nothing was told of."""
    if device == "gpu":
        import torch

        torch.backends.cudnn.allow_tf32 = False  # answers are compared to 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about themselves
        case = network(engine, folder)
    made = traced(engine, case, folder, REQUESTS, library=True, device=device)
    write(made.spans, folder / "spans.parquet")
    (folder / "known.json").write_text(json.dumps({"defects": made.defects, "clock": made.clock}))
    sys.exit(made.lost)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
