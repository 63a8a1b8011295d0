"""Networks that are stored as weights plus the name and arguments of what builds them.

Only names that an installed package registers are built (entry points ``inferbench.architectures``; ours stand in
``pyproject.toml``): a model's folder can't make us import anything else. The one exception is ``USER_MODULE``: the
module that a submission names in plain sight (``module_file.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.formats import module_file
from inferbench_tasks.registry import Registry

FILE = "architecture.json"
USER_MODULE = "user-module"
#: Takes (framework, name, arguments) and returns the network, with fresh weights.
Builder = Callable[[str, str, dict[str, Any]], Any]
ARCHITECTURES: Registry[Builder] = Registry("architecture", "inferbench.architectures", {})


def write(folder: Path, architecture: dict[str, Any]) -> None:
    """Describe the network beside its weights."""
    (folder / FILE).write_text(json.dumps(architecture))


def build(folder: Path, framework: str) -> Any:
    """The network of a model's folder, without its weights. InputError where it is not known."""
    try:
        description = json.loads((folder / FILE).read_bytes())
        if description["name"] == USER_MODULE:
            return module_file.build(folder, description["arguments"]["factory"])
        return construct(framework, {"name": description["name"], "arguments": description["arguments"]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The model {folder} has no readable {FILE}: {error}") from error


def construct(framework: str, architecture: dict[str, Any]) -> Any:
    """The described network, with fresh weights. UnknownKindError where no package registers it."""
    name = architecture["name"]
    return ARCHITECTURES.load(name)(framework, name, architecture["arguments"])
