"""``inferbench paper mlmodelscope``: MLModelScope's models by architecture on four stacks, on one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.analysis.systems.study import Entry, Stack, Study, place, read
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cli.paper_runs import Done
from inferbench_tasks.cli.paper_work import run_all, work_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OutputFormat, emit, say
from inferbench_tasks.spreadsheet import harmless_table
from inferbench_tasks.submission.reader import refused

#: As ``inferbench paper`` names it.
NAME = "mlmodelscope"
CATALOGUE = Path(__file__).resolve().parents[2] / "configs" / "mlmodelscope.yaml"
PAGE, TABLE = "mlmodelscope.html", "mlmodelscope.csv"
_SHOWN = ("model", "device", "backend", "format", "trimmed_mean_ms", "p90_ms", "throughput_samples_per_s",
          "batch_size", "rss_bytes", "measure", "quality", "of_this_study")  # fmt: skip

Left = list[tuple[str, str]]


def measured(names: list[str], *, again: bool, output: OutputFormat, catalogue: Path = CATALOGUE) -> None:
    """Run what is not done yet, then write table and page. typer.Exit with 1 where a run failed or does not count."""
    study = read(catalogue)
    entries = study.chosen(names)
    data_dir = settings.writable(settings.data_dir())
    here, left_out = fitting(study, entries)
    works = [
        work_of(place(here[entry.model], entry, data_dir / "paper" / NAME))
        for entry in entries
        if entry.model in here
    ]
    for what, why in left_out:
        say(f"{what} is left out: {why}")
    done = Done(data_dir / "paper" / f"{NAME}.json")
    if again:
        done.forget(work.file for work in works)
    rows = run_all(works, done)
    _conclude(data_dir, entries, rows, left_out, output)
    if any(row["exit_code"] for row in rows):
        raise typer.Exit(1)


def fitting(study: Study, entries: Sequence[Entry]) -> tuple[dict[str, Study], Left]:
    """Model -> the study with the stacks that can serve it here; (model on stack, why) of the others."""
    here: dict[str, Study] = {}
    left_out: Left = []
    absent = {
        stack.backend: BACKENDS.load(stack.backend).unavailable("process", "cpu")
        for stacks in study.stacks.values()
        for stack in stacks
    }
    for entry in entries:
        kept: list[Stack] = []
        for stack in study.stacks[entry.framework]:
            alone = study.model_copy(update={"stacks": {entry.framework: (stack,)}})
            why = absent[stack.backend] or refused(alone.submission(entry), INSTALLED)
            if why:
                left_out.append((f"{entry.model} on {stack.backend}", why))
            else:
                kept.append(stack)
        if kept:
            here[entry.model] = study.model_copy(update={"stacks": {entry.framework: tuple(kept)}})
    return here, left_out


def _conclude(
    data_dir: Path,
    entries: Sequence[Entry],
    ran: Sequence[dict[str, Any]],
    left_out: Left,
    output: OutputFormat,
) -> None:
    from inferbench_tasks.analysis.systems.study_page import make_page, marked
    from inferbench_tasks.analysis.systems.table import table
    from inferbench_tasks.perfdb.store import PerfDB

    asked = {entry.model for entry in entries}
    runs = {run for row in ran for run in row["run_ids"]}
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        rows = marked([row for row in table(db) if row["model"] in asked], runs)
    if not rows:
        raise InputError("no run of these models is valid; there is no table to write")
    lost = [(row["submission"], _lost(row)) for row in ran if row["runs"] != row["valid"]]
    failed = [(row["submission"], "no run ended with a result") for row in ran if not row["runs"]]
    folder = data_dir / "paper"
    words = make_page(
        folder / PAGE,
        rows,
        entries,
        [*left_out, *lost, *failed],
        {row["submission"]: row["report"] for row in ran},
        {row["submission"] for row in ran if row["valid"]},
    )
    harmless_table(pd.DataFrame(rows)).to_csv(folder / TABLE, index=False)
    emit(
        [{name: row[name] for name in _SHOWN} for row in rows] if output is OutputFormat.table else rows,
        output,
    )
    say(f"{words}\n{folder / PAGE}\n{folder / TABLE}")


def _lost(row: dict[str, Any]) -> str:
    disturbed = f", {row['disturbed']} of them for the machine was disturbed" if row["disturbed"] else ""
    return (
        f"{row['runs'] - row['valid']} of {row['runs']} runs do not count{disturbed}; the same command measures this "
        "model again"
    )
