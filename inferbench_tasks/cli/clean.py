"""``inferbench clean``: remove what is old and not in use."""

from __future__ import annotations

from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.upkeep.clean import PLACES, clean, due
from inferbench_tasks.upkeep.keep import USUAL

app = typer.Typer()
NAMES = tuple(place.name for place in PLACES)
_BOUNDS = "; ".join(f"{place.name}: {USUAL[place.setting]} [{place.setting}]" for place in PLACES)


@app.command(name="clean")
def command(
    places: list[str] | None = typer.Argument(
        None,
        metavar="[PLACE]...",
        help=f"{', '.join(NAMES)} [all of them]. Bounds, of the variables in brackets: {_BOUNDS}; forever keeps all.",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only list what would go, and what stays and why."),
    unstored: bool = typer.Option(
        False,
        "--unstored",
        help="Also old runs whose raw records are not in PerfDB, or that it does not know.",
    ),
    if_due: bool = typer.Option(False, "--if-due", help="Only if the last cleaning is a day old."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Remove old files of runs, caches, submissions and logs; of runs that were killed their networks, and their files
    in PerfDB that no result names. Results stay.

    First what has not been used for long, then, beyond a size, what was used longest ago. What runs or waits, and what
    it uses, stays; so does what was used within the last hour. A running system does this once a day, and so does
    `inferbench run`.
    """
    if unknown := sorted(set(places or ()) - set(NAMES)):
        raise InputError(f"There is nothing to clean called {unknown[0]!r}; known: {', '.join(NAMES)}.")
    data_dir = settings.data_dir()
    if not data_dir.is_dir() or (if_due and not due(data_dir)):
        return
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        outcomes = clean(data_dir, db, places or (), dry_run=dry_run, unstored=unstored)
    rows = [
        {
            "place": outcome.place,
            "path": str(_below(data_dir, outcome.path)),
            "mb": round(outcome.total_bytes / 1e6, 1),
            "days": round(outcome.age_s / 86_400, 1),
            "why": outcome.reason,
            "stays": outcome.kept or None,
        }
        for outcome in outcomes
    ]
    emit(rows, output)
    total_bytes = sum(outcome.total_bytes for outcome in outcomes if not outcome.kept)
    count = sum(not outcome.kept for outcome in outcomes)
    say(f"{'would remove' if dry_run else 'removed'} {count} of {len(outcomes)}, {total_bytes / 1e6:,.1f} MB")


def _below(data_dir: Path, path: Path) -> Path:
    return path.relative_to(data_dir) if path.is_relative_to(data_dir) else path
