"""``inferbench run``: a submission on this machine, from YAML to report."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.progress import Watcher
from inferbench_tasks.contracts.verdict import MODE, NOTED, Verdict
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.output import OutputFormat
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.running.cluster_abilities import of_machine_here
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.submission.reader import read_with_jobs

app = typer.Typer()

#: How long the stages may take to clean up after a Ctrl-C before they are killed.
GRACE_S = 30.0


@app.command()
def run(
    file: Path = typer.Argument(..., metavar="FILE", help="The submission, a YAML file."),
    inline: bool = typer.Option(False, "--inline", help="Run the same plan without Airflow."),
    files_in: Path | None = typer.Option(
        None,
        "--files-in",
        metavar="FOLDER",
        help="Where the files lie that FILE names [beside it].",
        show_default=False,
    ),
    output: OutputFormat = typer.Option(
        OutputFormat.table, "--output", "-o", help="How to print the results."
    ),
    strict: bool | None = typer.Option(
        None,
        "--strict/--no-strict",
        help="Whether a disturbed run makes the exit code 1 [in CI, where the variable CI is set].",
        show_default=False,
    ),
) -> None:
    """Run a submission here, from its first stage to its report.

    The real DAG is run by Airflow, in a process of its own; its log is kept in a file. Progress goes
    to stderr, the results to stdout. Exit code 0 only if every run is valid, or disturbed at worst without --strict; 2
    if the submission is wrong, also where only a stage can see it; else 1.
    """
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.running.conclude import conclude, report_path
    from inferbench_tasks.upkeep.clean import clean_if_due

    base_dir = (files_in or file.parent).absolute()
    if files_in is not None and not files_in.is_dir():
        raise InputError(f"there is no folder {str(files_in)!r}", field="--files-in")
    submission, jobs = read_with_jobs(file, of_machine_here(settings.data_dir()), base_dir)
    data_dir = settings.writable(settings.data_dir())
    settings.refuse_full(data_dir)
    invocation = Invocation.new(data_dir, submission.name)
    invocation.place(Order(submission=submission, base_dir=str(base_dir), data_dir=str(data_dir)))
    module = "inferbench_tasks.running.inline" if inline else "inferbench_tasks.provider.local"
    log_path = invocation.dir / "log.txt"
    log_into(log_path)
    with open(log_path, "ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", module, str(invocation.dir)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, settings.DATA_DIR: str(data_dir)},
        )
    watcher = Watcher(invocation, jobs)
    _forward_signals(child, invocation, watcher)
    try:  # while the child imports Airflow
        db = PerfDB.connect(settings.perfdb_uri(), data_dir)
    except InferBenchError:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    with db:
        code = watcher.watch(child, grace_s=GRACE_S)
        results = conclude(invocation, db, cancelled=watcher.stopped_by is not None, say=_say)
        clean_if_due(data_dir, db)
    report = report_path(invocation)
    pipeline_of(submission).show(results, report, output)
    if code and not results and not watcher.stopped_by:
        end = "\n".join(log_path.read_text(errors="replace").splitlines()[-12:])
        typer.echo(f"The run ended unexpectedly (exit code {code}); its log ends with:\n{end}", err=True)
    typer.echo(f"log       {log_path}", err=True)
    if db.embedded:
        typer.echo("perfdb    stays up for the next command; `inferbench perfdb stop` ends it", err=True)
    if watcher.stopped_by:
        raise typer.Exit(128 + watcher.stopped_by)
    verdicts = [result.verdict for result in results]
    if text := what_to_do(verdicts, pipeline_of(submission).patience):
        _say(text)
    if code or not verdicts or not passes(verdicts, strict=in_ci() if strict is None else strict):
        raise typer.Exit(InputError.exit_code if watcher.refused else 1)


def in_ci() -> bool:
    """Whether this is a build server, which sets ``CI``: there nobody reads a sentence, an exit code they do."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def passes(verdicts: Sequence[Verdict], *, strict: bool) -> bool:
    """Whether the runs are good enough for exit code 0: all valid; a disturbed one too unless ``strict``."""
    return all(verdict.valid or (verdict.bounds_only and not strict) for verdict in verdicts)


def what_to_do(verdicts: Sequence[Verdict], patience: str | None = None) -> str | None:
    """One sentence about runs that were disturbed; None if there is none.

    ``patience``: the field of their submission that says how long a run waits for a quiet machine.
    """
    disturbed = [verdict for verdict in verdicts if verdict.bounds_only]
    if not disturbed:
        return None
    some = f"{len(disturbed)} of {len(verdicts)} run(s) were disturbed, so their figures are bounds and never ranked"
    if all(reason.check == NOTED for verdict in disturbed for reason in verdict.reasons):
        return f"{some}: unset {MODE} and run it again to have them judged."
    longer = f", with a longer {patience}," if patience else ""
    return f"{some}: run it again once other programs have ended{longer} or on a machine of its own."


def _say(text: str) -> None:
    typer.echo(text, err=True)


def log_into(path: Path) -> None:
    """What this process has to say beside the progress goes where the stages' log goes."""
    logging.basicConfig(
        filename=path, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    # On a full disk the run ends with a message of its own: a line that the log loses is no traceback before it.
    logging.raiseExceptions = False


def _forward_signals(child: subprocess.Popen[bytes], invocation: Invocation, watcher: Watcher) -> None:
    def stop(signum: int, frame: FrameType | None) -> None:
        again = watcher.stopped_by is not None
        watcher.stopped_by = watcher.stopped_by or signum
        invocation.cancel()
        if child.poll() is None:
            if again:
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.send_signal(signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
