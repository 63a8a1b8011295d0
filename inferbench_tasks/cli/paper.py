"""``inferbench paper``: every type of figure of the InferBench paper, measured on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.submission.reader import read_submission

app = typer.Typer()
FOLDER = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "paper"


@app.command()
def paper(
    figures: list[str] = typer.Argument(
        None, metavar="[FIGURE]", help="Only these, for instance fig11; all by default.", show_default=False
    ),
    folder: Path = typer.Option(FOLDER, "--folder", help="Where the submissions lie."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run the paper's submissions one after the other, each to a report of its own, and list them.

    They are sized for a small machine without a GPU; each file says what a GPU would change. Exit code 1 if
    one of any failed or is not valid; one that the machine disturbed is listed as such, and fails where CI is set.
    """
    files = [
        f for f in sorted(folder.glob("*.yaml")) if not figures or any(name in f.stem for name in figures)
    ]
    if not files:
        raise InputError(
            f"{folder} has no submission{' that matches ' + ', '.join(figures) if figures else ''}."
        )
    for file in files:
        read_submission(file, INSTALLED)  # all are checked before the first one runs
    rows = []
    for position, file in enumerate(files, start=1):
        say(f"[{position}/{len(files)}] {file.stem}")
        process = subprocess.run(
            [sys.executable, "-m", "inferbench_tasks.cli.main", "run", "--inline", str(file), "-o", "json"],
            stdout=subprocess.PIPE,
            check=False,
        )
        rows.append(_row(file, process.returncode, process.stdout))
    emit(rows, output)
    if any(row["exit_code"] for row in rows):
        raise typer.Exit(1)


def _row(file: Path, code: int, printed: bytes) -> dict[str, Any]:
    """What became of one submission: its report, and how many of its runs count."""
    import json

    runs = json.loads(printed) if printed.strip() else []
    verdicts = [Verdict.read(run["verdict"]) for run in runs]
    return {
        "submission": file.stem,
        "valid": sum(verdict.valid for verdict in verdicts),
        "disturbed": sum(verdict.bounds_only for verdict in verdicts),
        "runs": len(runs),
        "report": runs[0]["report"] if runs else None,
        "exit_code": code,
    }
