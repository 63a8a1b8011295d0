"""``inferbench training scaling``: trainings over their number of ranks."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, safe
from inferbench_tasks.perfdb.store import PerfDB

_TABLE = (
    "ranks",
    "batch",
    "cores",
    "samples_per_s",
    "speedup",
    "speedup_low",
    "speedup_high",
    "efficiency",
    "step_ms",
)
PREDICTION = (
    "Prediction, not measured, for ranks with as many cores each and links as here; between an exchange that the "
    "links' bandwidth limits and one that the messages' latency does:"
)


def scaling(
    submission: str = typer.Option("", "--submission", help="Runs of this submission only."),
    model: str = typer.Option("", "--model", help="Of this network only."),
    device: str = typer.Option("", "--device", help="On this device only."),
    ranks: str = typer.Option("2,4,8,16,32,64", "--ranks", help="What to predict, beyond what was measured."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Speed-up and efficiency over ranks, strong and weak: where the rest went, and what more ranks would bring.

    Of the newest valid runs that differ in their number of ranks only. The least number is what others are set beside.
    """
    from inferbench_tasks.training.scaling import rows

    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        filters = {"submission": submission, "model": model, "device": device}
        curves = rows.documents(db, filters, _numbers(ranks))
    if output is not OutputFormat.table:
        emit(curves, output)
        return
    for number, curve in enumerate(curves):
        if number:
            typer.echo()
        typer.echo(safe(f"{curve['kind'].capitalize()} scaling: {curve['work']}"))
        emit([{name: point[name] for name in _TABLE} for point in curve["points"]], output)
        lost = [
            {"ranks": point["ranks"], "ideal_step_ms": point["ideal_step_ms"], **_lost(point)}
            for point in curve["points"][1:]
            if point["lost_to_exchange_ms"] is not None
        ]
        if lost:
            typer.echo("What a step takes beyond the ideal one, ms:")
            emit(lost, output)
        if curve["forecast"]:
            typer.echo(PREDICTION)
            emit(curve["forecast"], output)
        if curve["no_forecast"]:
            others = " of others" if curve["forecast"] else ""
            typer.echo(safe(f"No prediction{others}: {curve['no_forecast']}."))


def _lost(point: dict[str, float | None]) -> dict[str, float | None]:
    return {
        name.removeprefix("lost_to_"): value for name, value in point.items() if name.startswith("lost_to_")
    }


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"whole numbers separated by commas are expected; got {text!r}", field="--ranks"
        ) from error
