"""``inferbench leaderboard``: the best valid results by any figure."""

from __future__ import annotations

import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.recommend.leaderboard import UNUSUAL, USUAL, usual_figure
from inferbench_tasks.analysis.recommend.leaderboard import leaderboard as ranked
from inferbench_tasks.analysis.recommend.left_out import left_out_note
from inferbench_tasks.analysis.recommend.not_ranked import not_ranked_note
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer()


@app.command()
def leaderboard(
    query: list[str] = typer.Argument(
        None, metavar="[QUERY]", help="As in `results list`.", show_default=False
    ),
    by: str = typer.Option(
        None,
        "--by",
        metavar="FIGURE",
        help="p99_ms, throughput_rps, joule_per_request, ...; by default max_rate_samples_per_s where any run "
        "that matches searched for it, else p99_ms, or output_tokens_per_s where none has that.",
        show_default=False,
    ),
    limit: int = typer.Option(
        20, "--limit", "-n", min=1, help="At most so many per task, data set and load."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Rank valid results by a figure, per task, data set and load. Those share a rank that differ within noise, and
    those of which nobody knows which is better: the column `tie` says which. The interval is of the run alone. What is
    no model (the stand-in, random weights) has ranks of its own, and its task says so.

    Results of a disturbed machine are left out, and those whose load lets no figure of theirs be ranked; how many is
    said.
    """
    parse(query or [])  # a wrong query is refused before anything is started
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        if by is None and (by := usual_figure(db, query or [])) != USUAL:
            say(f"Ranked by {by}: {UNUSUAL[by]}. --by {USUAL} and others rank by another figure.")
        rows = ranked(db, by, query or [], limit)
        notes = left_out_note(db, query or []), not_ranked_note(db, by, query or [], listed=len(rows))
    for note in filter(None, notes):
        say(note)
    if output is OutputFormat.table:  # a column that no row fills only takes room
        empty = [name for name in ("model_apart", "not_steady", "part") if not any(row[name] for row in rows)]
        rows = [{name: value for name, value in row.items() if name not in empty} for row in rows]
    emit(rows, output)
