"""Whether another ONNX Runtime reads models of a form: asked of it, before anything waits for a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.other_runtimes import search_path
from inferbench_tasks.errors import InputError

#: Of the standard: of others each runtime knows its own, and says what it thinks when the model is loaded.
_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
_LOAD = (
    "import sys, onnxruntime; onnxruntime.set_default_logger_severity(4); "
    "onnxruntime.InferenceSession(sys.stdin.buffer.read(), providers=['CPUExecutionProvider'])"
)
_LOAD_S = 120


def require_reads(path: Path, folder: Path, words: str) -> None:
    """InputError where the runtime in the environment ``folder`` (``words``: its name) knows nothing of a model's IR
    version, or of its operator sets.

    It is asked to load one node of that form; the model itself, which may be anybody's, is loaded in the server's
    sandbox alone.
    """
    import onnx

    model = onnx.load(path, load_external_data=False)
    opsets = {each.domain: each.version for each in model.opset_import if each.domain in _DOMAINS}
    process = subprocess.run(
        [sys.executable, "-c", _LOAD],
        input=_one_node(model.ir_version, opsets),
        env={**os.environ, "PYTHONPATH": search_path(folder)},
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=_LOAD_S,
    )
    if process.returncode:
        end = (process.stderr.decode(errors="replace").strip().splitlines() or ["it told nothing"])[-1]
        form = ", ".join(f"{name or 'ai.onnx'} {version}" for name, version in sorted(opsets.items()))
        raise InputError(
            f"{words} can't read the model, which has ONNX's IR version {model.ir_version} and operator sets {form}: "
            f"{end}. Export it for an older operator set, or name a newer version",
            field="serve.framework",
        )


def _one_node(ir_version: int, opsets: dict[str, int]) -> bytes:
    """A model that gives back what it gets."""
    from onnx import TensorProto, helper

    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "form", tensors[:1], tensors[1:])
    own = {"": 17} if not {"", "ai.onnx"} & set(opsets) else {}
    imports: list[Any] = [helper.make_opsetid(name, version) for name, version in {**own, **opsets}.items()]
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    return bytes(made.SerializeToString())
