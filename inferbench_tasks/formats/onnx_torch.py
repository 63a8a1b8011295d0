"""PyTorch to ONNX.

By the tracing exporter: it takes a second where the newer one takes ten, its graphs answer the same,
and LSTM and batch axis come out right. A model that can't be traced is exported by the newer one.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.formats import torch as torch_format

log = logging.getLogger(__name__)


def export(module: Any, source: ModelArtifact, path: Path, opset: int) -> None:
    """Write ``path``; every -1 in the signature becomes a dynamic axis, and so does a batch that is free."""
    import torch

    examples = torch_format.examples(source)
    names = {
        "input_names": [spec.name for spec in source.inputs],
        "output_names": [spec.name for spec in source.outputs],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations within the exporters; the answers are compared
        try:
            torch.onnx.export(
                module,
                examples,
                str(path),
                opset_version=opset,
                dynamic_axes={s.name: _axes(s, source) for s in (*source.inputs, *source.outputs)},
                dynamo=False,
                **names,
            )
        except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
            log.info("tracing failed, exporting the program instead model=%s: %s", source.name, error)
            torch.onnx.export(
                module,
                examples,
                str(path),
                dynamic_shapes=tuple(_dims(spec, source) for spec in source.inputs),
                dynamo=True,
                external_data=False,
                verbose=False,
                **names,
            )


def _axes(spec: TensorSpec, source: ModelArtifact) -> dict[int, str]:
    batch = {} if source.batch_size else {0: "batch"}
    return batch | {i + 1: f"{spec.name}_{i + 1}" for i, size in enumerate(spec.shape) if size == -1}


def _dims(spec: TensorSpec, source: ModelArtifact) -> dict[int, Any]:
    import torch

    return dict.fromkeys(_axes(spec, source), torch.export.Dim.AUTO)
