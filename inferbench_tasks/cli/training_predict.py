"""``inferbench training predict``: the step with other numbers of loader processes, cores and ranks, by a run's
pipeline.
"""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis.pipeline import MOST_WORKERS
from inferbench_tasks.training.diagnosis.predict import MOST_CORES, MOST_RANKS

_NOTE = (
    "Predicted by a model of the pipeline, not measured. A run with these fields measures it; more ranks exchange as "
    "these do (`training scaling` tells what an exchange grows to)."
)


def predict(
    run: str = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'."),
    workers: int | None = typer.Option(
        None, "--workers", min=0, max=MOST_WORKERS, help="Loader processes of each rank."
    ),
    cores: float | None = typer.Option(
        None, "--cores", min=0.1, max=MOST_CORES, help="Granted cores, all ranks together."
    ),
    ranks: int | None = typer.Option(
        None, "--ranks", min=1, max=MOST_RANKS, help="Training processes (devices)."
    ),
    cached: float | None = typer.Option(
        None,
        "--cached",
        min=0.0,
        max=1.0,
        help="Share of the files that is in memory; needs runs of its submission with warm and cold reads.",
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Predict a valid run's step for other numbers of loader processes, cores, ranks, or another cache.

    Without any option: for each number of loader processes, on its cores and on enough of them.
    """
    from inferbench_tasks.training.diagnosis import predict as of
    from inferbench_tasks.training.diagnosis.of_run import siblings
    from inferbench_tasks.training.listing import result_of

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        result = result_of(db, run)
        others = siblings(db, result)
    if workers is cores is ranks is cached is None:
        rows = of.table(result)
    else:
        rows = [of.predicted(result, others, workers=workers, cores=cores, ranks=ranks, cached=cached)]
    emit(rows, output)
    if output is OutputFormat.table:
        typer.echo(_NOTE)
