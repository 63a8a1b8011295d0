"""Each side of a night runs its own code, with all the processes that it starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from inferbench_tasks.regression.sides import PACKAGE, Side


def checkout(folder: Path) -> Path:
    """A package that starts another process of itself, which says where it came from."""
    (folder / PACKAGE).mkdir(parents=True)
    (folder / PACKAGE / "__init__.py").write_text("")
    (folder / PACKAGE / "child.py").write_text("print(__file__)")
    (folder / PACKAGE / "main.py").write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-m', '{PACKAGE}.child'], check=True)"
    )
    return folder


def test_a_sides_processes_take_nothing_from_the_working_directory(tmp_path: Path) -> None:
    """Started inside another checkout, a side and its children are the side's own code."""
    ours, other = checkout(tmp_path / "ours"), checkout(tmp_path / "other")
    side = Side(id="x", tree=str(ours), python=sys.executable)
    command = [side.python, "-m", f"{PACKAGE}.main"]
    env = side.environment(tmp_path, "mongodb://127.0.0.1/x")
    process = subprocess.run(command, env=env, cwd=other, capture_output=True, text=True, check=True)
    assert Path(process.stdout.strip()) == ours / PACKAGE / "child.py"
