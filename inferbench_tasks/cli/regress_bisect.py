"""``inferbench regress bisect``: which commit, version or image made a change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.perfdb.store import PerfDB


def bisect(
    file: Path = typer.Argument(..., metavar="SUBMISSION", help="The submission, a YAML file."),
    good: str | None = typer.Option(
        None,
        "--good",
        metavar="A",
        help="The end that is as it should be: a commit, a version, a step's name.",
    ),
    bad: str | None = typer.Option(None, "--bad", metavar="B", help="The end that is changed."),
    repo: Path | None = typer.Option(
        None,
        "--repo",
        metavar="FOLDER",
        help="The git repository of the commits; by default this checkout's.",
    ),
    package: str | None = typer.Option(
        None, "--package", help="Versions of this Python package instead of commits."
    ),
    versions: str | None = typer.Option(
        None, "--versions", metavar="V,V,...", help="Its versions; by default those that pip knows."
    ),
    image: list[str] = typer.Option(
        [], "--image", help="Images of the server instead, by digest; once for each, the good one first."
    ),
    steps: Path | None = typer.Option(
        None,
        "--steps",
        metavar="FILE",
        help="A YAML list of steps instead: tree, python, packages, image, env.",
    ),
    build: str | None = typer.Option(
        None, "--build", metavar="COMMAND", help="Run in each commit's checkout first."
    ),
    figure: str = typer.Option("p50_ms", "--figure", help="What changed: a figure that nights watch."),
    job: int = typer.Option(0, "--job", min=0, help="Which job of a sweep."),
    detect: float = typer.Option(
        3.0, "--detect", min=0.1, max=100, metavar="PERCENT", help="The smallest change that counts."
    ),
    error: float = typer.Option(
        5.0, "--error", min=0.01, max=50, metavar="PERCENT", help="How often the whole answer may be wrong."
    ),
    most_pairs: int = typer.Option(80, "--most-pairs", min=8, max=1000, help="Of one comparison."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Find the step that made a change: compare the ends, halve what is between, compare the step with the one before.

    Pairs run here, in turns, until a sequential test has decided each comparison. What was measured is kept: the same
    command goes on where it was stopped. Exit code 0 with a culprit, a range or none; 1 where it could not be told.
    """
    from inferbench_tasks.regression.bisect import steps as lists
    from inferbench_tasks.regression.bisect.session import Request
    from inferbench_tasks.regression.bisect.session import bisect as run_bisection
    from inferbench_tasks.regression.sides import own_checkout

    logging.basicConfig(level=logging.WARNING)
    if sum(map(bool, (repo, package, image, steps))) > 1:
        raise InputError("--repo, --package, --image and --steps exclude each other: steps are of one kind.")
    if steps or image:
        chosen = lists.from_to(lists.read_list(steps) if steps else lists.images(image), good, bad)
    elif good is None or bad is None:
        raise InputError("--good and --bad name the ends; without them only for --steps and --image.")
    elif package:
        chosen = lists.versions(package, good, bad, versions.split(",") if versions else ())
    else:
        chosen = lists.commits(repo or own_checkout(), good, bad)
    request = Request(
        file, chosen, figure, job, detect / 100, error / 100, most_pairs=most_pairs, build_command=build
    )
    data_dir = settings.writable(settings.data_dir())
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        state, answer = run_bisection(request, db, data_dir, say)
    from inferbench_tasks.regression.bisect.text import as_mapping, sentences

    if output is OutputFormat.table:
        for sentence in sentences(state, answer):
            typer.echo(sentence)
    else:
        document: dict[str, Any] = as_mapping(state, answer)
        emit(document, output)
    if answer.kind not in ("culprit", "range", "none"):
        raise typer.Exit(1)
