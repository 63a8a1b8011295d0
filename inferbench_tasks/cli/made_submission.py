"""A submission that a command makes of its options, and runs here."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from inferbench_tasks.output import OutputFormat


def model_of(model: str) -> dict[str, Any]:
    """A model's file, below the current folder, or a model of the zoo, as ``model`` of a submission, with the requests
    that it takes: who gives a file gives no samples."""
    if "/" in model or (Path(model).suffix != "" and Path(model).exists()):
        return {"model": {"kind": "file", "path": model}, "requests": {"kind": "random"}}
    return {"model": {"kind": "zoo", "name": model}}


def run_made(command: str, text: str, *, inline: bool, output: OutputFormat) -> None:
    """Run the YAML as ``inferbench run`` does. ``command``: who made it, for the file's name."""
    from inferbench_tasks.cli.run import run

    # Beside the user's files, which a submission names relative to itself.
    with tempfile.NamedTemporaryFile(
        "w", dir=Path.cwd(), prefix=f".inferbench-{command}-", suffix=".yaml", encoding="utf-8"
    ) as file:
        file.write(text)
        file.flush()
        run(Path(file.name), inline=inline, files_in=None, output=output, strict=None)
