"""``inferbench paper``: every type of figure of the InferBench paper, measured on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli import paper_models
from inferbench_tasks.cli.paper_runs import Done
from inferbench_tasks.cli.paper_work import run_all, work_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

if TYPE_CHECKING:
    from inferbench_tasks.analysis.devices.speedup import Speedups

app = typer.Typer()
FOLDER = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "paper"
PAGE = "paper.html"
#: What starting, converting and ending a server takes around each job, until the first submissions tell.
AROUND_A_JOB_S = 5.0


@app.command()
def paper(
    figures: list[str] = typer.Argument(
        None,
        metavar="[FIGURE...]",
        help="Only these, for instance fig11; all by default. Or mlmodelscope, with models after it: that paper's.",
        show_default=False,
    ),
    folder: Path = typer.Option(FOLDER, "--folder", help="Where the submissions lie."),
    again: bool = typer.Option(False, "--again", help="Measure them again, what is done too."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run the paper's submissions one after the other, and set each figure of the paper beside ours on one page.

    An ended call goes on where it was: a submission all of whose runs were valid within the last day is not run
    again. They are sized for a small machine without a GPU; each file says what a GPU would change. Exit code 1 if
    one of any failed or is not valid; one that the machine disturbed is listed as such, and fails where CI is set.

    `paper mlmodelscope [MODEL...]` measures the 37 models of MLModelScope's paper, by architecture, on four stacks, and
    writes one table and one page; hours, resumed in the same way (configs/mlmodelscope.yaml).
    """
    if figures and figures[0] == paper_models.NAME:
        return paper_models.measured(figures[1:], again=again, output=output)
    works = [work_of(file) for file in _files(folder, figures)]  # all are checked before the first runs
    data_dir = settings.writable(settings.data_dir())
    done = Done(data_dir / "paper" / "done.json")
    if again:
        done.forget(work.file for work in works)
    rows = run_all(works, done)
    words, page = _page(
        data_dir, rows, {work.file.stem: work.unavailable for work in works if work.unavailable}
    )
    emit([{k: v for k, v in row.items() if k in _SHOWN} for row in rows], output)
    say(f"{words}\n{page}")
    if any(row["exit_code"] for row in rows):
        raise typer.Exit(1)


_SHOWN = ("submission", "valid", "disturbed", "runs", "report", "exit_code")


def _files(folder: Path, figures: Sequence[str] | None) -> list[Path]:
    files = [
        f for f in sorted(folder.glob("*.yaml")) if not figures or any(name in f.stem for name in figures)
    ]
    if not files:
        raise InputError(
            f"{folder} has no submission{' that matches ' + ', '.join(figures) if figures else ''}."
        )
    return files


def _page(data_dir: Path, rows: Sequence[dict[str, Any]], unavailable: Mapping[str, str]) -> tuple[str, Path]:
    from inferbench_tasks.analysis.ceilings import kept_of
    from inferbench_tasks.analysis.devices.alike import stored
    from inferbench_tasks.analysis.devices.places import THROUGHPUT
    from inferbench_tasks.analysis.devices.speedup import USUAL_STATISTIC
    from inferbench_tasks.analysis.paper.compose import make_page
    from inferbench_tasks.analysis.paper.evidence import Evidence
    from inferbench_tasks.analysis.paper.scheduler import replayed
    from inferbench_tasks.analysis.report.runs import load_runs
    from inferbench_tasks.brick_jobs.instance_costs import costs_of
    from inferbench_tasks.perfdb.store import PerfDB

    path = data_dir / "paper" / PAGE
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        views = {row["submission"]: load_runs(db, row["run_ids"]) for row in rows if row["run_ids"]}
        documents = stored(db, "", (THROUGHPUT, USUAL_STATISTIC))
        results = [view.result for group in views.values() for view in group if view.result]
        evidence = Evidence(
            _speedups(documents),
            costs_of(db, documents),
            replayed(data_dir / "scheduling"),
            kept_of(results, data_dir),
        )
        reports = {row["submission"]: row["report"] for row in rows}
        words = make_page(path, views, reports, evidence, unavailable)
    return words, path


def _speedups(documents: Sequence[dict[str, Any]]) -> Speedups:
    """Over the CPU, of all that is stored; none where nothing was measured on one."""
    from inferbench_tasks.analysis.devices.speedup import Speedups, speedups

    try:
        return speedups(documents)
    except InputError as error:
        return Speedups([], [str(error)])
