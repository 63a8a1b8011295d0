"""``inferbench systems``: the model x system table, with ranks, from the runs in PerfDB."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from inferbench_tasks import settings
from inferbench_tasks.analysis.certainty import NOT_KNOWN
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.spreadsheet import harmless_table

app = typer.Typer()
_SHOWN = ("model", "device", "backend", "format", "precision", "measure", "quality", "trimmed_mean_ms", "p90_ms",
          "p99_ms", "throughput_samples_per_s", "batch_size", "rss_bytes", "cold_start_ms", "joule_per_sample",
          "cost_usd_per_1k_samples")  # fmt: skip
_TELLING = (
    "model_apart",
    "model_version",
    "model_digest",
    "version",
    "threads",
    "instances",
    "cores",
    "protocol",
    "prompts",
    "inputs",
    "price_date",
    "settings",
)


@app.command()
def systems(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL...]", help="Only these models.", show_default=False)
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE.csv", help="The whole table, ranks included.")
    ] = None,
    output: OutputFormat = OUTPUT,
) -> None:
    """A row for each model, stack and system: how right, how soon, how much, at what cost; #1 is best of its model.

    #1? shares a rank because it is not known which is better, not because they are the same; --to has why.
    """
    from inferbench_tasks.analysis.systems.table import table

    if to is not None and to.suffix != ".csv":
        raise InputError(f"{to} does not end in .csv", field="--to")
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        rows = table(db, models or [])
    if to is not None:
        harmless_table(pd.DataFrame(rows)).to_csv(to, index=False)
        say(f"{to}: {len(rows)} row(s)")
    if output is not OutputFormat.table:
        emit(rows, output)
        return
    shown = [*_SHOWN[:5], *_that_differ(rows), *_SHOWN[5:]]
    emit([{name: _with_rank(row, name) for name in shown} for row in rows], output)


def _that_differ(rows: list[dict[str, Any]]) -> list[str]:
    """What tells rows of one model apart where the usual columns are the same."""
    models = {row["model"] for row in rows}
    return [
        name
        for name in _TELLING
        if any(len({row[name] for row in rows if row["model"] == model}) > 1 for model in models)
    ]


def _with_rank(row: dict[str, object], name: str) -> object:
    value, rank = row[name], row.get(f"rank_{name}")
    doubt = "?" if str(row.get(f"tie_{name}")).startswith(NOT_KNOWN) else ""
    return f"{value:.4g} #{rank}{doubt}" if rank is not None else value
