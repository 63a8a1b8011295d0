"""Weights in safetensors with a Python file of the user's that builds their network.

The weights are plain tensors. The module is code, and running it is the user's express wish: the submission names
it. It runs in the stages' child process only, never in the server, from the copy whose digest the result has.
"""

from __future__ import annotations

import importlib.util
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.safe_files import inside
from inferbench_tasks.errors import InputError

#: Name of the copy beside the weights.
FILE = "module.py"
MAX_BYTES = 1 << 20


def find(base_dir: Path, path: str) -> Path:
    """The module of a submission. InputError where it is no Python file below its folder."""
    module = inside(base_dir, path, "model.module")
    if module.suffix != ".py" or not module.is_file():
        raise InputError(f"{path} is no Python file (.py)", field="model.module")
    if module.stat().st_size > MAX_BYTES:
        raise InputError(
            f"{path} has more than the {MAX_BYTES:,} bytes that are allowed", field="model.module"
        )
    return module


class _Unwritten(SourceFileLoader):
    """Leaves no bytecode beside the module: the folder's digest is the model's."""

    def set_data(self, path: str, data: Any, *, _mode: int = 0) -> None:
        """Ignore the bytecode that the import system would write."""


def build(folder: Path, factory: str) -> Any:
    """What the module's factory returns. InputError, with its own line and words, where that fails."""
    import torch

    path = folder / FILE
    loader = _Unwritten("inferbench_user_module", str(path))
    spec = importlib.util.spec_from_file_location("inferbench_user_module", path, loader=loader)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = getattr(module, factory, None)
        if not callable(function):
            known = ", ".join(n for n in vars(module) if not n.startswith("_") and callable(vars(module)[n]))
            raise InputError(
                f"the module has no function {factory}; it has: {known or 'none'}", field="model.factory"
            )
        network = function()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise InputError(
            f"{place_of(error, path)}{type(error).__name__}: {error}", field="model.module"
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise InputError(
            f"{factory}() returned {type(network).__name__}; it has to return a torch.nn.Module",
            field="model.factory",
        )
    return network


def place_of(error: BaseException, path: Path) -> str:
    """The last line of the user's own file that the error went through."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError) and error.lineno:
        lines = [error.lineno]
    return f"line {lines[-1]}: " if lines else ""
