"""``inferbench recommend``: which configuration to use under an SLO."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.recommender import THROUGHPUT, Recommendation, usual_objective
from inferbench_tasks.analysis.recommend.recommender import recommend as recommended
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()


@app.command()
def recommend(
    query: list[str] = typer.Argument(
        None,
        metavar="[QUERY]",
        help="Which results to choose from, as in `results list`.",
        show_default=False,
    ),
    slo: list[str] = typer.Option(
        [],
        "--slo",
        metavar="BOUND",
        help="'p99_ms<=100', 'throughput_rps>=50', 'rss_bytes<=2e9'; repeatable.",
    ),
    by: str = typer.Option(
        None,
        "--by",
        metavar="FIGURE",
        help="What to optimise within the SLO; by default max_rate_samples_per_s where all results that match searched "
        "for it, else throughput_samples_per_s.",
        show_default=False,
    ),
    load: str = typer.Option(
        None,
        "--load",
        metavar="LOAD",
        help="Only results under this load, as 'poisson, 800 samples/s'; asked for where there are several.",
        show_default=False,
    ),
    search: Path = typer.Option(
        None,
        "--search",
        metavar="SUBMISSION",
        help="Run the most promising jobs of this submission's sweep first, and choose from its jobs; its `slo` counts "
        "as bounds. What PerfDB has of them is not run again.",
        show_default=False,
    ),
    runs: int = typer.Option(
        None,
        "--runs",
        min=1,
        help="Configurations to measure at most; 8% of the sweep, at least 8, by default. With --capacity: loads of "
        "each configuration, 12 by default.",
    ),
    capacity: Path = typer.Option(
        None,
        "--capacity",
        metavar="SUBMISSION",
        help="Find the highest rate (or the most users) of this language model's submission at which the lower 95% "
        "bound of the good ratio keeps slo.min_good_ratio, to 5%: a run for each load that is tried.",
        show_default=False,
    ),
    settle: int = typer.Option(
        4, "--settle", min=0, help="Runs to spend on making the order of the best sure."
    ),
    seed: int = typer.Option(1, "--seed", help="Of the search."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Name the top three configurations that keep the SLO, with the probability that each beats the next.

    Results of several tasks, data sets or loads are not compared: then it lists what picks one.
    Exit code 1 if none can be recommended.
    """
    if capacity is not None:
        if query or load or slo or by or search:
            raise InputError(
                "--capacity searches by its submission's own slo; it goes with --runs and --output only"
            )
        _show_capacity(capacity, runs, output)
        return
    bounds = [_bound(text) for text in slo]
    if by is not None:
        FIGURES.ranking(by)
    parse(query or [])
    if search is not None:
        from inferbench_tasks.cli import recommend_search

        if query or load:
            raise InputError("--search chooses among its submission's jobs; leave the query and --load out")
        recommendation = recommend_search.search(
            search, by or THROUGHPUT, bounds, runs=runs, settle=settle, seed=seed
        )
    else:
        with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
            objective = by or usual_objective(db, query or [], load)
            recommendation = recommended(db, objective, bounds, query or [], load)
    _show(recommendation, output)
    if not recommendation.top:
        raise typer.Exit(1)


def _show(recommendation: Recommendation, output: OutputFormat) -> None:
    for note in recommendation.notes:
        say(note)
    if output is OutputFormat.table:
        # Sentences are wider than any column.
        emit([{k: v for k, v in row.items() if k != "why"} for row in recommendation.top], output)
        for row in recommendation.top:
            say(f"{row['rank']}. {row['why']}")
        return
    emit(
        {
            "top": recommendation.top,
            "notes": recommendation.notes,
            "candidates": recommendation.candidates,
            "fitting": recommendation.fitting,
        },
        output,
    )


def _show_capacity(file: Path, runs: int | None, output: OutputFormat) -> None:
    """Exit code 1 if a configuration has no bound."""
    from inferbench_tasks.cli import recommend_capacity

    found = recommend_capacity.capacity(file, runs)
    rows = [one.row() for one in found]
    if output is OutputFormat.table:
        emit(rows, output)
    else:
        emit(
            [
                {**row, "steps": [asdict(step) for step in one.steps]}
                for row, one in zip(rows, found, strict=True)
            ],
            output,
        )
    if any(one.capacity.value is None for one in found):
        raise typer.Exit(1)


def _bound(text: str) -> Bound:
    try:
        return Bound.parse(text)
    except InputError as error:
        raise InputError(f"--slo {error}") from error
