"""``inferbench trace``: where the time of requests went, of runs with a ``trace`` block and of imported traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli import trace_export, trace_open, trace_run, trace_sources
from inferbench_tasks.errors import InputError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, first_of, say
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.registry import derived
from inferbench_tasks.tracing.batches import batch_in_words
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.queries import trace_of
from inferbench_tasks.tracing.share import doubts_in_words, share_in_words
from inferbench_tasks.tracing.stored import find_imported, refuse_imported

app = typer.Typer(
    no_args_is_help=True,
    help="Where the time of requests goes: run, list, layers, show, open, compare, export, import, delete, sources.",
)
RUN = typer.Argument(
    ...,
    metavar="RUN",
    help="A run's id, the unique start of one, or 'latest'; or the id of an imported trace.",
)


@app.command("import")
def import_(
    path: Path = typer.Argument(
        ..., metavar="FILE", help="OTLP (protobuf or JSON) or Chrome's trace format; also packed by gzip."
    ),
    name: str = typer.Option("", "--name", help="What to call it; the file's name unless given."),
    output: OutputFormat = OUTPUT,
) -> None:
    """Take in another tool's trace, checked: to be listed, shown and exported. It has no verdict and no figures."""
    from inferbench_tasks.tracing.foreign.file import load, read
    from inferbench_tasks.tracing.foreign.keep import keep

    file = load(path)
    with _open() as db:
        try:
            document, new = keep(db, file, read(file), name[:200])
        except InputError as error:
            raise InputError(f"{path}: {error.message}", field="FILE") from error
    _show_imported(document, output)
    say("Imported." if new else "It was imported before; nothing was stored.")


@app.command("list")
def list_(
    limit: int = typer.Option(50, "--limit", "-n", min=1, help="At most so many, the newest first."),
    output: OutputFormat = OUTPUT,
) -> None:
    """List traced runs, imported traces and trainings, whose steps are traces: spans, levels, defects, or why there is
    none.
    """
    from inferbench_tasks.pipelines.traces import listed

    with _open() as db:
        rows = listed(db, limit + 1)
    emit(first_of(rows, limit), output)


@app.command()
def delete(
    traces: list[str] = typer.Argument(None, metavar="[TRACE]...", help="Runs, or ids of imported traces."),
    older_than: float = typer.Option(
        None, "--older-than", metavar="DAYS", min=0, help="All traces of both kinds that are older."
    ),
    yes: bool = typer.Option(False, "--yes", help="Don't ask."),
) -> None:
    """Delete imported traces, and the spans of runs; a run's result stays, its trace's summary, too."""
    from inferbench_tasks.tracing.stored import delete as remove
    from inferbench_tasks.tracing.stored import delete_unfinished, stored_before

    if bool(traces) == (older_than is not None):
        raise InputError("name traces, or say --older-than DAYS")
    if not yes and not sys.stdin.isatty():
        raise InputError("delete asks before it deletes; without a terminal, say --yes.")
    with _open() as db:
        chosen = traces or stored_before(db, older_than)
        if not yes and not typer.confirm(f"Delete the spans of {len(chosen):,} trace(s)?", err=True):
            return
        for trace in chosen:
            say(f"{trace}: {remove(db, trace):,} bytes deleted")
        delete_unfinished(db)
    say(f"{len(chosen):,} trace(s) deleted")


@app.command()
def layers(run: str = RUN, output: OutputFormat = OUTPUT) -> None:
    """The layers of a run in their order: type, median time, share of all layers."""
    refuse_imported(run)
    with _open() as db:
        trace = trace_of(result := _result(db, run))
    _say_verdict(result)
    document = trace.get("layers")
    if not document:
        raise InputError(f"Nothing is known of the layers of {run}; its levels: {', '.join(trace['levels'])}")
    total = sum(layer["ms"] for layer in document["layers"])
    rows = [
        {
            "place": layer["order"],
            "layer": layer["name"],
            "type": layer["type"],
            "ms": layer["ms"],
            "share_ratio": layer["ms"] / total if total else None,
            "output_bytes": layer["output_bytes"],
        }
        for layer in document["layers"]
    ]
    emit(rows, output)
    if output is OutputFormat.table and (batch := batch_in_words(result)):
        say(batch)


@app.command()
def show(
    run: str = RUN,
    name: str = typer.Option("", "--analysis", "-a", help="The table of one analysis, by its name."),
    output: OutputFormat = OUTPUT,
) -> None:
    """The analyses across the stack of a run: what each shows in a sentence, or what is missing; or one's table.

    Of a share of a load (trace.one_in) which share it is and the parts of its requests. Of both what monitors saw
    meanwhile. Of an imported trace what its file told: services, spans by name, what is wrong with it.
    """
    from inferbench_tasks.analysis.stack.base import ANALYSES, Analysis
    from inferbench_tasks.analysis.stack.document import analysed
    from inferbench_tasks.analysis.stack.stored import subject_of

    if name:
        ANALYSES.told(name, lambda analysis: derived(analysis, Analysis), "--analysis")
        refuse_imported(run)
    with _open() as db:
        if (kept := find_imported(db, run)) is not None:
            _show_imported(kept, output)
            return
        result = _result(db, run)
        _say_verdict(result)
        trace = trace_of(result)
        if not name and (share := share_in_words(trace)):
            _show_share(result.run_id, trace, share, output)
            return
        document = analysed(subject_of(db, result))
    if not name:
        _show_analyses(document, trace, output, batch_in_words(result))
        return
    (table,) = (each for each in document["analyses"] if each["name"] == name)
    if table["missing"]:
        raise InputError(f"{name} of {document['run']} needs {table['missing']}", field="--analysis")
    if output is OutputFormat.table:
        emit(table["rows"], output)
        said = (table["sentence"], batch_in_words(result), table["formula"])
        say("\n".join(filter(None, said)))
    else:
        emit(table, output)


app.command("run")(trace_run.run)
app.command("open")(trace_open.open_)


@app.command()
def compare(
    left: str = typer.Argument(..., metavar="RUN", help="A traced run."),
    right: str = typer.Argument(..., metavar="RUN", help="Another one, which is set against it."),
    output: OutputFormat = OUTPUT,
) -> None:
    """What makes the difference between two traced runs: layers by sequence, kind and shape, adding up to it."""
    from inferbench_tasks.analysis.stack.document import compared, labelled
    from inferbench_tasks.analysis.stack.stored import subject_of

    for run in (left, right):
        refuse_imported(run)
    with _open() as db:
        subjects = labelled([subject_of(db, _result(db, run), batches=False) for run in (left, right)])
    document = compared(*subjects)
    if output is OutputFormat.table:
        emit(document["rows"], output)
        say("\n".join(document["sentences"]))
    else:
        emit(document, output)


app.command("export")(trace_export.export)
app.command("sources")(trace_sources.sources)


def _open() -> PerfDB:
    return PerfDB.connect(settings.perfdb_uri(), settings.data_dir())


def _result(db: PerfDB, run: str) -> ResultDocument:
    return db.get_result(db.resolve_run(run))


def _show_analyses(document: dict[str, Any], trace: dict[str, Any], output: OutputFormat, batch: str) -> None:
    """What each analysis shows of requests asked one by one, and what monitors saw meanwhile. ``batch``: of which batch
    that is, where it needs a word."""
    if output is not OutputFormat.table:
        emit({"trace": trace, **document}, output)  # as REST has it
        return
    emit(_sentences(document), output)
    if batch:
        say(batch)
    _show_counters(trace)
    if missing := missing_in_words(trace):
        say(missing)


def _say_verdict(result: ResultDocument) -> None:
    """That a run does not count: what spoilt its figures may have met the requests that were traced."""
    if not result.verdict.valid:
        say(f"{result.run_id} is {result.verdict}.")


def _show_share(run: str, trace: dict[str, Any], share: str, output: OutputFormat) -> None:
    """The parts of the traced requests of a load, what monitors saw meanwhile, and of how many requests it is."""
    if output is not OutputFormat.table:
        emit({"run": run, "traced": share, "trace": trace}, output)
        return
    emit(trace["parts"], output)
    _show_counters(trace)
    say(" ".join(filter(None, (f"{share}.", doubts_in_words(trace), missing_in_words(trace)))))


def _show_counters(trace: dict[str, Any]) -> None:
    from inferbench_tasks.tracing.counters import in_rows

    if counters := in_rows(trace):
        say("What monitors saw meanwhile:")
        emit(counters, OutputFormat.table)


def _show_imported(document: dict[str, Any], output: OutputFormat) -> None:
    """What an imported trace is, its spans by name, and what is wrong with it."""
    about = {"trace": document["_id"], **{k: v for k, v in document.items() if k not in ("_id", "file")}}
    if output is not OutputFormat.table:
        emit(about, output)
        return
    emit({name: value for name, value in about.items() if name not in ("names", "findings")}, output)
    emit(document["names"], output)
    for each in document["findings"]:
        say(f"{each['count']:,} x {each['what']}: {'; '.join(each['first'])}")


def _sentences(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "xsp": each["number"],
            "analysis": each["name"],
            "shows": each["sentence"] or f"missing: {each['missing']}",
        }
        for each in document["analyses"]
    ]
