"""Bytecode that a process in the sandbox can't write, written by who started it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferbench_tasks.sandbox import bytecode

SHOW = "import sys; sys.path.insert(0, sys.argv[1]); import inferbench_probe_module; "
SHOW += "from inferbench_tasks.sandbox import bytecode; print(chr(10).join(bytecode.lacking()))"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module among the interpreter's, without bytecode."""
    folder = Path(sys.prefix) / "inferbench-probe"
    folder.mkdir(exist_ok=True)
    source = folder / "inferbench_probe_module.py"
    source.write_text("raise_if_run = 1\n")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    yield source
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def lacking(folder: Path) -> list[str]:
    """What a process that writes no bytecode says that it lacks."""
    command = [sys.executable, "-B", "-c", SHOW, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")


def test_a_module_is_compiled_once(module: Path) -> None:
    """It is named as long as it has no bytecode of its source, and no longer."""
    assert str(module) in lacking(module.parent)
    assert bytecode.write([str(module)]) == 1
    assert str(module) not in lacking(module.parent)


def test_only_packages_are_compiled_and_nothing_is_run(module: Path, tmp_path: Path) -> None:
    """A file elsewhere, also by a way that leads out of the packages, is left; so is one that is no Python."""
    other = tmp_path / "x.py"
    other.write_text("import os; os._exit(9)")
    assert bytecode.write([str(other), f"{sys.prefix}/../../../../..{other}", "/etc/passwd", "a\nb.py"]) == 0
    assert list(tmp_path.iterdir()) == [other]
    module.write_text("raise SystemExit(9)")
    assert bytecode.write([str(module)]) == 1
