"""``inferbench regress``: nights of baseline against candidate, and what they say."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli import regress_bisect
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.regression.bisect.offer import offer, start_of
from inferbench_tasks.regression.ratio import MIN_PAIRS
from inferbench_tasks.regression.watched import bisects, comparable
from inferbench_tasks.running.cluster_abilities import of_machine_here

app = typer.Typer(
    no_args_is_help=True,
    help="Find regressions: run nights of baseline against candidate, check what they say, make the report.",
)
app.command(name="bisect")(regress_bisect.bisect)
NAMES = typer.Argument(
    None, metavar="[NAME]", help="Submissions, by name; all by default.", show_default=False
)


@app.command()
def run(
    file: Path = typer.Argument(..., metavar="FILE", help="The submission, a YAML file."),
    pairs: int | None = typer.Option(
        None, "--pairs", min=1, max=200, help="Runs of each side; by default 8, or what --detect needs."
    ),
    detect: float | None = typer.Option(
        None,
        "--detect",
        min=0.1,
        max=100,
        metavar="PERCENT",
        help="The smallest change to be found in a night.",
    ),
    candidate: Path | None = typer.Option(
        None, "--candidate", help="The checkout to test; by default this one."
    ),
    baseline: Path | None = typer.Option(
        None, "--baseline", help="The checkout to compare with; by default the accepted baseline."
    ),
    candidate_python: str | None = typer.Option(None, "--candidate-python", help="Its interpreter."),
    baseline_python: str | None = typer.Option(
        None, "--baseline-python", help="Its interpreter, to compare versions of other packages."
    ),
    new_baseline: bool = typer.Option(
        False, "--new-baseline", help="Take the candidate for the accepted baseline from now on."
    ),
    confirm: bool = typer.Option(
        True, "--confirm/--no-confirm", help="Run a session to confirm at once where something is suspected."
    ),
) -> None:
    """Run a night here: both sides in turns; a suspicion is followed by a session that confirms it or not.

    The first night compares the code with itself and makes it the baseline. Exit code 1 if a regression
    is confirmed.
    """
    from inferbench_tasks.regression.session import Night, run_night

    logging.basicConfig(level=logging.WARNING)
    if new_baseline and (baseline or baseline_python):
        raise InputError(
            "--new-baseline is the candidate itself; --baseline and --baseline-python name another."
        )
    data_dir = settings.writable(settings.data_dir())
    comparable(file, "A nightly comparison", of_machine_here(data_dir))  # also what systems misses here
    night = Night(
        file=file, pairs=pairs, detect=None if detect is None else detect / 100, candidate=candidate,
        baseline=baseline, candidate_python=candidate_python, baseline_python=baseline_python, confirm=confirm,
        new_baseline=new_baseline,
    )  # fmt: skip
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        outcome = run_night(night, db, data_dir, say)
        _tell(outcome, str(file))
        bisect_if_asked(file, outcome, db, data_dir)
    if outcome["regressions"]:
        raise typer.Exit(1)


def bisect_if_asked(file: Path, outcome: dict[str, Any], db: PerfDB, data_dir: Path) -> None:
    """Look for the commit of what the night confirmed, if the submission says so (``nightly.bisect``)."""
    from inferbench_tasks.regression.bisect.session import bisect
    from inferbench_tasks.regression.bisect.start import request_of
    from inferbench_tasks.regression.bisect.text import sentences

    submission = comparable(file, "A nightly comparison")
    start = start_of(outcome)
    if start is None or not bisects(submission):
        return
    say(f"{submission.name}: looking for the commit that changed {start['figure']} (nightly.bisect)")
    state, answer = bisect(request_of(file, start), db, data_dir, say)
    for sentence in sentences(state, answer):
        typer.echo(sentence)


@app.command()
def check(names: list[str] = NAMES, output: OutputFormat = OUTPUT) -> None:
    """Say what the newest sessions confirmed. Exit code 1 if it is a regression: for CI.

    undecided: series whose newest session has too few pairs to say anything.
    """
    state = _overview(names)
    if output is OutputFormat.table:
        emit([_row(series) for series in state["series"]], output)
        _tell(state)
    else:
        found = {key: state[key] for key in ("regressions", "improvements", "suspicions")}
        undecided = [series["id"] for series in state["series"] if not series["decided"]]
        emit({**found, "undecided": undecided}, output)
    if state["regressions"]:
        raise typer.Exit(1)


@app.command()
def report(
    names: list[str] = NAMES,
    folder: Path = typer.Option(
        Path("regression-report"), "--to", metavar="FOLDER", help="Where index.html and report.json go."
    ),
) -> None:
    """Write the report: every series with its change points, what was confirmed, which stage, what differs."""
    from inferbench_tasks.regression.report import write_report

    for path in write_report(_overview(names), folder):
        typer.echo(path)


def _overview(names: list[str] | None) -> dict[str, Any]:
    from inferbench_tasks.regression.overview import overview

    with PerfDB.connect(settings.perfdb_uri(), settings.writable(settings.data_dir())) as db:
        state = overview(db, names or ())
    if not state["series"]:
        raise InputError("PerfDB holds no nights yet; `inferbench regress run FILE` makes one.")
    return state


def _row(series: dict[str, Any]) -> dict[str, Any]:
    last = series["events"][-1] if series["events"] else None
    mde = series["minimum_detectable_effect_percent"]
    decision = "no change found"
    if not series["decided"]:
        decision = f"nothing decided: {series['newest_pairs']} of at least {MIN_PAIRS} pairs"
    elif last:
        decision = f"{last['kind']} {last['change_percent']:+.1f}% in {last['session']}"
    return {
        "submission": series["name"],
        "digest": series["digest"][:12],
        "cores": series["cores"],
        "figure": series["figure"],
        "sessions": len(series["points"]),
        "newest": f"{series['points'][-1]['change_percent']:+.1f}%",
        "finds": None if mde is None else f"{mde:.1f}%",
        "decision": decision,
    }


def _tell(changes_by_kind: dict[str, Any], file: str = "SUBMISSION") -> None:
    for word, changes in (
        ("regression", changes_by_kind["regressions"]),
        ("improvement", changes_by_kind["improvements"]),
    ):
        for change in changes:
            stage = change.get("stage")
            typer.echo(
                f"{word}: {change['series']} {change['change_percent']:+.1f}%"
                f" (p {change['p_value']:.2g}), {'in ' + stage if stage else 'no single stage stands out'}"
            )
            if command := offer(change, file):
                typer.echo(f"  which commit made it: {command}")
    for change in changes_by_kind["suspicions"]:
        typer.echo(f"suspected, not confirmed: {change['series']} {change['change_percent']:+.1f}%")
    undecided = sum(not series["decided"] for series in changes_by_kind["series"])
    if undecided:
        typer.echo(
            f"nothing decided: {undecided} of {len(changes_by_kind['series'])} series, whose newest session has fewer "
            f"than {MIN_PAIRS} pairs"
        )
    if undecided < len(changes_by_kind["series"]) and not (
        changes_by_kind["regressions"] or changes_by_kind["improvements"] or changes_by_kind["suspicions"]
    ):
        typer.echo("no change was found")
