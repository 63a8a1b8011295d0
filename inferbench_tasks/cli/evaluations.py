"""``inferbench evaluations``: how right answers were beside how fast, and two of the same samples in pairs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, fitting, say
from inferbench_tasks.perfdb.store import PerfDB

app = typer.Typer(no_args_is_help=True, help="Evaluated runs: list, show with samples, compare in pairs.")
RUN = typer.Argument(..., metavar="RUN", help="A run's id, the unique start of one, or 'latest'.")
LIMIT = typer.Option(50, "--limit", "-n", min=1, max=100_000, help="At most so many.")
OFFSET = typer.Option(0, "--offset", min=0, help="Leave out the first so many.")


@app.command("list")
def list_(
    query: list[str] = typer.Argument(
        None,
        metavar="[QUERY]",
        help="Terms as of `results list`: model=digits device=cpu.",
        show_default=False,
    ),
    dataset: Annotated[
        str, typer.Option("--dataset", help="What was asked: digits, words, folder; or a folder's name.")
    ] = "",
    limit: int = LIMIT,
    offset: int = OFFSET,
    output: OutputFormat = OUTPUT,
) -> None:
    """Evaluated runs, the newest first: the first measure with its 95% interval, beside latency and throughput.

    The parts of one evaluation are one row, without speed: each of them had a load of its own. A table has as many
    columns as fit the terminal, JSON and YAML have all measures and whatever else is known.
    """
    from inferbench_tasks.analysis.evaluations.found import evaluations
    from inferbench_tasks.cli.evaluations_table import EXPENDABLE, columns_of, in_short, notes_on
    from inferbench_tasks.perfdb.queries import parse

    parse(query or [])  # a wrong query is refused before anything is started
    with _open() as db:
        rows = first_of(evaluations(db, query or [], dataset, limit + 1, offset), limit)
    if output is not OutputFormat.table:
        emit(rows, output)
        return
    short = in_short(rows)
    emit(short, output, fitting(short, columns_of(short), EXPENDABLE))
    for note in notes_on(rows):
        say(note)


def _narrow(row: dict[str, Any]) -> dict[str, Any]:
    """For a terminal: of the answers' digest its beginning, which is enough to see whether two are the same."""
    from inferbench_tasks.analysis.evaluations.listed import flat

    return flat([row | {"answers_digest": (row["answers_digest"] or "")[:8] or None}])[0]


@app.command()
def show(
    run: str = RUN,
    only: Annotated[
        str,
        typer.Option("--only", help="Which samples: all, wrong (the surest first), otherwise or unanswered."),
    ] = "all",
    limit: int = LIMIT,
    offset: int = OFFSET,
    output: OutputFormat = OUTPUT,
) -> None:
    """One evaluation with what changes of the pre-processing do, and a part of its samples: label, answer, score, the
    answer alone, the source model's."""
    from inferbench_tasks.analysis.evaluations.by_loadgen import words
    from inferbench_tasks.analysis.evaluations.listed import evaluation_of, row
    from inferbench_tasks.analysis.evaluations.samples import ONLY, picked, rows
    from inferbench_tasks.analysis.evaluations.stored import answers_of
    from inferbench_tasks.analysis.evaluations.varied import rows as varied_rows

    which = next((each for each in ONLY if each == only), None)
    if which is None:
        raise InputError(f"{only!r} is no kind of samples; known: {', '.join(ONLY)}", field="--only")
    with _open() as db:
        result = db.get_result(db.resolve_run(run))
        chosen = picked(answers_of(db, result), which)
    evaluation = evaluation_of(result)
    varied = varied_rows(evaluation)
    summary, samples = row(result.model_dump()), rows(chosen, limit, offset)
    if output is not OutputFormat.table:
        body = {"evaluation": summary, "varied": varied, "count": chosen.num_rows, "samples": samples}
        emit(body | {"mlperf": evaluation["mlperf"]} if "mlperf" in evaluation else body, output)
        return
    emit(_narrow(summary), output)
    if summary["part"]:
        say(
            f"It is part {summary['part']}; `inferbench evaluations together {summary['run']}` has all of them as one"
        )
    if (by_loadgen := words("It", evaluation)) is not None:
        say(by_loadgen)
    if varied:
        say("What each change of the pre-processing does; p is corrected for the number of variants")
        emit(varied, output)
    say(f"{chosen.num_rows:,} samples ({only}); shown: {len(samples):,} from {offset:,} on")
    emit(samples, output)


@app.command()
def compare(
    first: str = RUN,
    second: str = RUN,
    limit: int = LIMIT,
    offset: int = OFFSET,
    output: OutputFormat = OUTPUT,
) -> None:
    """Two evaluations of the very same samples in pairs: McNemar's p, differences with intervals, what differs."""
    from inferbench_tasks.analysis.evaluations.stored import compare_stored

    with _open() as db:
        document = compare_stored(db, [first, second], limit, offset)
    if output is not OutputFormat.table:
        emit(document, output)
        return
    shown = (
        "measure",
        "first",
        "second",
        "difference",
        "ci95",
        "p_value",
        "method",
        "only_first",
        "only_second",
        "why",
    )
    emit([{name: row.get(name) for name in shown} for row in document["measures"]], output)
    for sentence in document["sentences"]:
        say(sentence)
    if document["differing"]:
        emit(document["differing"], output)
    if document["next_offset"] is not None:
        say(f"Of the samples that differ {limit:,} from {offset:,} on; more with --limit.")


@app.command()
def together(
    runs: list[str] = typer.Argument(
        ..., metavar="RUN...", help="All parts; or one of them, whose invocation has the others. Or 'latest'."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """The parts of one evaluation (`evaluate.parts: 8`) as one: each measure anew, over all samples."""
    from inferbench_tasks.analysis.evaluations.stored import together_stored

    with _open() as db:
        document = together_stored(db, runs)
    if output is not OutputFormat.table:
        emit(document, output)
        return
    say(f"{document['samples']:,} samples of {len(document['runs'])} runs: {', '.join(document['runs'])}")
    for run, verdict in zip(document["runs"], document["verdicts"], strict=True):
        if verdict != "valid":
            say(f"{run} does not count: {verdict}")
    emit([{"measure": name, **found} for name, found in document["measures"].items()], output)
    for name, why in document["left_out"].items():
        say(f"{name} is left out: {why}")


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())
