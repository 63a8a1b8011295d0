"""``inferbench training``: what came out of runs of ``kind: training``."""

from __future__ import annotations

from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.training import TRAINING
from inferbench_tasks.training.result import TrainingResult

app = typer.Typer(no_args_is_help=True, help="List and show results of training runs.")
RUN = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'.")
ATTEMPT = typer.Option(None, "--attempt", min=1, help="The attempt; the latest by default.")


@app.command("list")
def list_(
    limit: int = typer.Option(50, "--limit", "-n", min=0, help="At most so many; 0 = all."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List results, newest first: samples/s without instruments, the step and its phases, ms."""
    with _open() as db:
        results = db.results_of(TrainingResult, limit=limit)
    emit([row(result) for result in results], output)


@app.command()
def show(run: str = RUN, attempt: int | None = ATTEMPT, output: OutputFormat = OUTPUT) -> None:
    """Show one result in full; ``results stages`` tells how its stages went."""
    with _open() as db:
        run_id = db.resolve_run(run)
        where = {"run_id": run_id} | ({"attempt": attempt} if attempt else {})
        results = db.results_of(TrainingResult, where, sort=(("attempt", -1),), limit=1)
    if not results:
        of = f", attempt {attempt}" if attempt else ""
        raise InputError(
            f"PerfDB has no result of a training run {run_id!r}{of}; `inferbench training list` shows them."
        )
    emit(results[0].model_dump(mode="json"), output)


def row(result: TrainingResult) -> dict[str, Any]:
    """A line of the list."""
    engine, model = result.engine, result.model
    return {
        "run": result.run_id,
        "created": result.created_at,
        "benchmark": result.benchmark,
        "model": model.name if model else None,
        "data": result.data.get("kind"),
        "processes": engine.processes if engine else None,
        "workers": result.loader.get("workers"),
        **TRAINING.figures(result),
        "verdict": str(result.verdict),
    }


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
