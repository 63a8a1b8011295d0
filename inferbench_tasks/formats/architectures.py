"""Networks that are stored as weights plus the name and arguments of what builds them.

Only names of this table are built: a model's folder can't make us import anything else. The one exception is
``USER_MODULE``: the module that a submission names in plain sight (``formats/module_file.py``).
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError

FILE = "architecture.json"
_NETWORKS = "inferbench_tasks.modelrepo.networks"
_CANONICAL = "inferbench_tasks.modelrepo.canonical.architectures"
USER_MODULE = "user-module"
#: Name -> "module:function"; the function takes (framework, name, arguments) and returns the network.
ARCHITECTURES: dict[str, str] = {
    f"canonical-{family}": f"{_CANONICAL}:build" for family in ("mlp", "cnn", "rnn", "transformer")
} | {
    "resnet50": f"{_NETWORKS}.resnet:build",
    "mobilenet_v2": f"{_NETWORKS}.mobilenet:build",
    "bert-base": f"{_NETWORKS}.bert:build",
    "all-minilm-l6-v2": f"{_NETWORKS}.bert:build",
    "lstm": f"{_NETWORKS}.lstm:build",
    "cyclegan": f"{_NETWORKS}.cyclegan:build",
    "detector": f"{_NETWORKS}.detector:build",
    "efficientnet-lite0": f"{_NETWORKS}.efficientnet_lite:build",
    "fashion-mnist": f"{_NETWORKS}.fashion:build",
}


def write(folder: Path, architecture: dict[str, Any]) -> None:
    """Describe the network beside its weights."""
    (folder / FILE).write_text(json.dumps(architecture))


def build(folder: Path, framework: str) -> Any:
    """The network of a model's folder, without its weights. InputError where it is not known."""
    try:
        described = json.loads((folder / FILE).read_bytes())
        if described["name"] == USER_MODULE:
            from inferbench_tasks.formats import module_file

            return module_file.build(folder, described["arguments"]["factory"])
        return construct(framework, {"name": described["name"], "arguments": described["arguments"]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The model {folder} has no readable {FILE}: {error}") from error


def construct(framework: str, architecture: dict[str, Any]) -> Any:
    """The described network, with fresh weights. InputError where it is not known."""
    name = architecture["name"]
    if name not in ARCHITECTURES:
        raise InputError(f"Unknown architecture {name!r}; known: {', '.join(ARCHITECTURES)}")
    module, _, function = ARCHITECTURES[name].partition(":")
    return getattr(importlib.import_module(module), function)(framework, name, architecture["arguments"])
