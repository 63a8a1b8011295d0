"""A submission that runs a model file, as ``inferbench models inspect`` prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.gguf_file import read_gguf

#: What free sizes are counted with, and offered.
SIZE = 16


def submission(
    model: ModelArtifact, path: Path, runs: list[dict[str, Any]], fields: Mapping[str, str]
) -> str:
    """A submission as YAML for the first backend that runs the model here."""
    usual = {"backend": "onnxruntime", "format": "onnx"}
    able = [row for row in runs if row["here"] == "yes"]
    here = next((row for row in able if row["backend"] == usual["backend"]), able[0] if able else usual)
    chosen = "".join(f", {name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    lines = [
        f"name: {model.name.lower().replace('_', '-')[:60]}",
        f"model: {{kind: file, path: {json.dumps(path.name, ensure_ascii=False)}{chosen}}}",
    ]
    if not FORMATS.load(model.format).tensors:
        return "\n".join([*lines, *_prompts(path)]) + "\n"
    if texts(model):
        lines.append("requests: {kind: files, path: texts.txt}  # a text in each line")
    elif not made_up(model):
        lines.append(
            "requests: {kind: files, path: samples.npz}  # an array for each input, the first axis counts samples"
        )
    elif free_axes(model):
        lines += [
            "requests:",
            "  kind: random",
            f"  sizes: [{size_of(model)}]  # or a law: {{kind: uniform, min: 8, max: 64}}",
        ]
    lines += [
        f"convert: {{format: {here['format']}}}",
        f"serve: {{backend: {here['backend']}}}",
        "load:",
        "  arrivals: {kind: poisson, rate_rps: 20}",
        "  duration_s: 30",
    ]
    if (model.batch_size or 1) > 1:
        lines.append(f"  batch_size: {model.batch_size}")
    return "\n".join(lines) + "\n"


def _prompts(path: Path) -> list[str]:
    """The rest of a submission of a language model, of lengths that it was made for."""
    context_tokens = min(1024, read_gguf(path).context_tokens or 1024)
    longest = min(200, context_tokens // 2)
    return [
        "convert: {format: gguf}",
        f"serve: {{backend: llama_cpp, slots: 2, context_tokens: {context_tokens}}}",
        "requests:",
        "  kind: prompts",
        f"  input_tokens: {{kind: uniform, min: {min(50, longest)}, max: {longest}}}",
        f"  output_tokens: {{kind: fixed, value: {min(64, context_tokens // 4)}}}",
        "load:",
        "  protocol: openai",
        "  arrivals: {kind: closed_loop, concurrency: 1}",
        "  duration_s: 60",
    ]


def texts(model: ModelArtifact) -> bool:
    return any(spec.dtype == "str" for spec in model.inputs)


def made_up(model: ModelArtifact) -> bool:
    """Whether the model takes noise, with 16 for each of its free sizes."""
    return not (model.costs_reason or "").startswith("The model can't be run")


def free_axes(model: ModelArtifact) -> list[str]:
    """The free axes of the inputs, as ``requests.sizes`` names them; the batch is axis 0."""
    return [f"{spec.name}.{at}" for spec in model.inputs for at, n in enumerate(spec.shape, 1) if n == -1]


def size_of(model: ModelArtifact) -> str:
    """A number for the free axes, as YAML."""
    return f"{{axes: {json.dumps(free_axes(model), ensure_ascii=False)}, size: {SIZE}}}"
