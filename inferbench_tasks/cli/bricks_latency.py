"""``inferbench bricks predict MODEL...``: the latency of models."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks import settings
from inferbench_tasks.cli.bricks_latency_words import in_words, short
from inferbench_tasks.cli.bricks_model import asked, named
from inferbench_tasks.cli.bricks_progress import progress
from inferbench_tasks.cli.bricks_wish import Wish
from inferbench_tasks.errors import InferBenchError, StageError
from inferbench_tasks.output import OutputFormat, emit, say

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.inside.decompose import Output
    from inferbench_tasks.brick_jobs.predict import Progress as Tell
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.stages.base import Context

    Cut = Callable[[Mapping[str, Any], set[str]], Output]


def predict_latency(
    models: Sequence[str],
    framework: str | None,
    precision: str,
    threads: int,
    wish: Wish,
    output: OutputFormat,
) -> None:
    """A row for each model; one that can't be predicted is named, and the others go on. StageError at the end then."""
    from inferbench_tasks.brick_jobs.one_device import one_device
    from inferbench_tasks.brick_jobs.queries import settings_of
    from inferbench_tasks.brick_jobs.stored import by_runtime, with_threads
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.running.child import keeping

    chosen = [named(model, framework) for model in models]  # one that is none is told before any is timed
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    with progress() as bar, PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db, keeping():
        if wish.device:  # an unknown one, and one of several, is told before a model is made
            runtime = wish.cut["runtime"]
            there = by_runtime(settings_of(db, wish.device), runtime)
            one_device(with_threads(there, threads, wish.device, runtime), wish.device)
        task = bar.add_task("preparing", total=None)
        for model, one in zip(models, chosen, strict=True):

            def tell(what: str, done: float, of: float | None, model: str = model) -> None:
                bar.update(task, description=f"{model}: {what}", completed=done, total=of)

            try:
                with asked(one, lambda done, of, what: tell(what, done, of), precision) as (common, ctx):
                    cut = partial(_cut, common, ctx)
                    rows.append(
                        _stored(db, cut, threads, wish)
                        if wish.device
                        else _here(db, cut, threads, wish, tell)
                    )
            except InferBenchError as error:
                if len(models) == 1:
                    raise
                failed.append(f"{model}: {error}")
    for row in rows:
        if row.get("warning"):
            say(f"{row['model']}: {row['warning']}.")
    emit([short(row) for row in rows] if output is OutputFormat.table else rows, output)
    for row in rows:
        say(in_words(row))
    if failed:
        raise StageError(f"{len(failed)} of {len(models)} models have no prediction:\n" + "\n".join(failed))


def _here(db: PerfDB, cut: Cut, threads: int, wish: Wish, tell: Tell) -> dict[str, Any]:
    """What is missing is timed on this machine."""
    from inferbench_tasks.brick_jobs.chosen import Wanted
    from inferbench_tasks.brick_jobs.places import place_here
    from inferbench_tasks.brick_jobs.predict import answer_here, measure
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.journal import sessions
    from inferbench_tasks.bricks.measure.session import cores_for, setting

    here = setting(cores_for(threads), threads, wish.cut["runtime"])
    results = PerfDBResults(db, here, place=place_here(db, settings.data_dir()))
    wanted = Wanted(method=wish.method)
    stored = set() if wish.again else results.usable(wanted)
    one = cut({**wish.cut, "method": wish.method}, stored)
    results.put_cuts(one.cuts, one.facts)
    with tempfile.TemporaryDirectory(prefix="inferbench-bricks-") as folder:
        journals = None if wish.again else sessions(settings.data_dir())
        measured = measure(one.missing, results, wish.method, Path(folder), tell, journals)
    return answer_here(
        results,
        one.cuts[0],
        wish.cut["wholes"],
        one.known,
        measured,
        wish.constructor,
        wish.calibrate_on,
        wanted,
    )


def _stored(db: PerfDB, cut: Cut, threads: int, wish: Wish) -> dict[str, Any]:
    """From stored times alone. The model is cut here: its bricks are those of a device of this instruction set."""
    from inferbench_tasks.brick_jobs.stored import answered

    one = cut({**wish.cut, "networks": False}, set())
    return answered(db, one.cuts[0], wish.device, threads, wish.calibrate_on, wish.constructor)


def _cut(common: Mapping[str, Any], ctx: Context, wanted: Mapping[str, Any], stored: set[str]) -> Output:
    from inferbench_tasks.brick_jobs.cut_all import asked_to_cut

    return asked_to_cut(ctx, stored, **common, **wanted)
