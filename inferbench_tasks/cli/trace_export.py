"""``inferbench trace export``: spans for other tools, into a file or to a collector."""

from __future__ import annotations

from pathlib import Path

import typer

from inferbench_tasks import settings
from inferbench_tasks.cli.bricks_progress import progress
from inferbench_tasks.errors import DeliveryError, InputError
from inferbench_tasks.output import say
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.tracing.push.base import GIVE_UP_AFTER_S
from inferbench_tasks.tracing.push.target import HEADERS, target_of


def export(
    run: str = typer.Argument(
        ...,
        metavar="RUN",
        help="A run's id, the unique start of one, or 'latest'; or the id of an imported trace.",
    ),
    path: Path = typer.Argument(
        None,
        metavar="[FILE]",
        help=".json (Perfetto, Chrome), .otlp.json, .otlp.pb, .jaeger.json or .parquet.",
    ),
    to: str = typer.Option(
        "",
        "--to",
        metavar="URL",
        help="Instead of a file a collector of OTLP: http://HOST:4318, https://HOST, grpc://HOST:4317 or "
        f"grpcs://HOST. What logs in there: {HEADERS[1]} in the environment.",
    ),
    give_up_after_s: float = typer.Option(
        GIVE_UP_AFTER_S,
        "--give-up-after",
        metavar="SECONDS",
        min=0,
        help="How long a collector that takes nothing is asked again.",
    ),
) -> None:
    """Hand the spans of a run, a training or an imported trace to another tool: as a file, whose ending says which
    form, or to a collector. Exit code 1 where a collector did not take them all.
    """
    from inferbench_tasks.pipelines.traces import find_trace
    from inferbench_tasks.tracing.export import form_of, write
    from inferbench_tasks.tracing.push.send import send_table

    if (path is None) == (not to):
        raise InputError("say either a FILE or --to URL: where the spans go")
    # What is wrong with these is said before the database is asked.
    target = target_of(to) if to else None
    if target is None:
        form_of(path)
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        trace = find_trace(db, run)
        table = trace.whole()
    if target is None:
        say(f"{write(table, path, trace.about):,} spans written to {path}")
        return
    with progress() as bar:
        task = bar.add_task(f"spans to {target.address}", total=table.num_rows)

        def telling(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done)
            if text:
                say(text)

        pushed = send_table(table, trace.about, target, give_up_after_s=give_up_after_s, telling=telling)
    if not pushed.complete:
        again = f"inferbench trace export {trace.id} --to {to}"
        raise DeliveryError(f"{pushed}\nThe trace is still stored: `{again}` sends all of it once more.")
    say(str(pushed))
