"""``inferbench paper``: every type of figure of the InferBench paper, measured on this machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.cli.paper_runs import Child, Done, not_here
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import expand

if TYPE_CHECKING:
    from inferbench_tasks.analysis.devices.speedup import Speedups

app = typer.Typer()
FOLDER = Path(__file__).resolve().parents[2] / "configs" / "submissions" / "paper"
PAGE = "paper.html"
#: What starting, converting and ending a server takes around each job, until the first submissions tell.
AROUND_A_JOB_S = 5.0


@dataclass(frozen=True)
class _Work:
    file: Path
    expected_s: float
    #: Why it can't be run here: a server that is not installed.
    unavailable: str | None = None


@app.command()
def paper(
    figures: list[str] = typer.Argument(
        None, metavar="[FIGURE]", help="Only these, for instance fig11; all by default.", show_default=False
    ),
    folder: Path = typer.Option(FOLDER, "--folder", help="Where the submissions lie."),
    again: bool = typer.Option(False, "--again", help="Measure them again, what is done too."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Run the paper's submissions one after the other, and set each figure of the paper beside ours on one page.

    An ended call goes on where it was: a submission all of whose runs were valid within the last day is not run
    again. They are sized for a small machine without a GPU; each file says what a GPU would change. Exit code 1 if
    one of any failed or is not valid; one that the machine disturbed is listed as such, and fails where CI is set.
    """
    works = [
        _Work(file, _expected_s(file), _unavailable(file)) for file in _files(folder, figures)
    ]  # all are checked before the first runs
    data_dir = settings.writable(settings.data_dir())
    done = Done(data_dir / "paper" / "done.json")
    if again:
        done.forget(work.file for work in works)
    rows = _run_all(works, done)
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


def _expected_s(file: Path) -> float:
    submission = read_submission(file, INSTALLED)
    pipeline = pipeline_of(submission)
    return sum(pipeline.length_s(job.spec) + AROUND_A_JOB_S for job in expand(submission))


def _unavailable(file: Path) -> str | None:
    """Why a server of any of its jobs can't run here; None if all can."""
    for job in expand(read_submission(file, INSTALLED)):
        if isinstance(job.spec, JobSpec):
            serve = job.spec.serve
            if why := BACKENDS.load(serve.backend).unavailable(serve.launcher, serve.device.kind):
                return f"{serve.backend} does not run here: {why}"
    return None


def _run_all(works: Sequence[_Work], done: Done) -> list[dict[str, Any]]:
    """A row for each; what is done stays as it is."""
    version = _version()
    kept = {work.file: row for work in works if (row := done.row(work.file, version)) is not None}
    done_before = len(kept)
    for work in works:
        if work.unavailable:
            kept[work.file] = not_here(work.file, work.unavailable)
    left = [work for work in works if work.file not in kept]
    child, took_s, foreseen_s = Child(), 0.0, 0.0
    with child.signals():
        for position, work in enumerate(left):
            pace = took_s / foreseen_s if foreseen_s else 1.0
            rest_s = pace * sum(one.expected_s for one in left[position:])
            say(f"[{len(kept) + 1}/{len(works)}] {work.file.stem}: about {_minutes(rest_s)} left for all")
            began = time.monotonic()
            row = child.run(work.file)
            took_s, foreseen_s = took_s + time.monotonic() - began, foreseen_s + work.expected_s
            done.keep(work.file, version, row)
            kept[work.file] = row
    if done_before:
        say(f"{done_before} of {len(works)} were done within the last day; --again measures them anew")
    return [kept[work.file] for work in works]


def _version() -> str:
    """Of InferBench's code: what another version measured is not shown as this one's."""
    from importlib.metadata import version

    from inferbench_tasks.monitors.environment import git_state

    return git_state()[0] or version("inferbench")


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


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
