"""Networks of the zoo as small ONNX models with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from tests.unit.bricks.graphs import weight

#: Name -> the network that it is of, its arguments, its inputs.
NETWORKS: dict[str, tuple[str, dict[str, Any], Arrays]] = {
    "mobilenet_v2": ("mobilenet_v2", {}, {"input": weight(1, 3, 64, 64)}),
    "lstm": ("lstm", {}, {"input": weight(1, 64, 256)}),
    "bert-base": (
        "bert-base",
        {
            "vocabulary": 100, "hidden": 32, "layers": 2, "heads": 4, "intermediate": 64, "positions": 16,
            "pool": "first",
        },
        {
            "input_ids": np.arange(12).reshape(1, 12),
            "attention_mask": np.array([[1] * 7 + [0] * 5]),
        },
    ),
    "resnet18": (
        "resnet50", {"blocks": [2, 2, 2, 2], "bottleneck": False}, {"input": weight(1, 3, 64, 64)}
    ),
}  # fmt: skip


def export_network(name: str, folder: Path) -> tuple[Path, Arrays]:
    """The model's file, and inputs for it; needs torch."""
    import torch

    from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
    from inferbench_tasks.formats.architectures import construct
    from inferbench_tasks.formats.onnx_torch import export

    architecture, arguments, feeds = NETWORKS[name]
    torch.manual_seed(0)
    module = construct("torch", {"name": architecture, "arguments": arguments}).eval()
    model = ModelArtifact(
        name="m", framework="torch", format="torch", path="", digest="",
        inputs=tuple(TensorSpec(name=n, dtype=a.dtype.name, shape=a.shape[1:]) for n, a in feeds.items()),
        outputs=(TensorSpec(name="answer", dtype="float32", shape=(1,)),),
    )  # fmt: skip
    export(module, model, folder / "m.onnx", 17)
    return folder / "m.onnx", feeds
