"""``inferbench bricks study``: how much of a corpus of models recurs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from inferbench_tasks import settings
from inferbench_tasks.bricks.corpus import Corpus, Entry, corpora, read_corpus
from inferbench_tasks.bricks.cuts import Cuts
from inferbench_tasks.bricks.study import Cut, Studied, document
from inferbench_tasks.cli.bricks_model import asked, named
from inferbench_tasks.errors import InferBenchError, InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

CORPUS = typer.Argument(..., metavar="CORPUS", help="paper50, distinct50, or the path of a corpus of yours.")
LARGEST = 10
GRANULARITY = typer.Option(1, "--granularity", "-G", min=1, max=LARGEST, help="Layers of a brick at most.")
VIEW = typer.Option(
    "source", "--view", help="source: the layers as converted; runtime: those ONNX Runtime executes here."
)
HTML = typer.Option(None, "--html", metavar="FILE", help="Where the report is written [data directory].")
TIMES = typer.Option(
    True, "--times/--no-times", help="With what PerfDB knows of these models' times on each device."
)
COLUMNS = (
    "model", "family", "copies", "layers", "bookkeeping", "layers_of_source", "bricks", "unique", "unique_ratio", "new"
)  # fmt: skip


def study(
    corpus: str = CORPUS,
    granularity: int = GRANULARITY,
    view: str = VIEW,
    html: Path | None = HTML,
    times: bool = TIMES,
    output: OutputFormat = OUTPUT,
) -> None:
    """Show how many layers of a corpus differ, within each model and across them, and write a report.

    Models are made with random weights and cut; nothing is timed. What was cut before is not cut again. A model that
    can't be is named, the others go on, and the exit code is 1. Of each device on which its models were measured as a
    whole (submissions of kind bricks, bricks predict --whole) it tells how near what is constructed comes, and the
    speed-up.
    """
    from inferbench_tasks.analysis.bricks_study import write_report
    from inferbench_tasks.bricks.views import view_of

    view_of(view)
    listed = read_corpus(corpus)
    _known(listed, corpus)
    data_dir = settings.writable(settings.data_dir())
    devices = _devices(listed, data_dir) if times else []
    studied, failed = _studied(listed, Cuts(data_dir), view, granularity)
    if not studied:
        raise StageError(_failures(failed, len(listed.models)))
    head = {
        "corpus": corpus,
        "summary": listed.summary,
        "view": view,
        "instruction_set": studied[0].cut.instruction_set,
        "granularity": granularity,
        "failed": failed,
    }
    found = head | document(studied) | {"devices": devices}
    # A file of somebody's may be called as a corpus of ours: it is none of its studies.
    name = corpus if corpus in corpora() else f"file-{Path(corpus).stem}"
    target = html or data_dir / "bricks" / "studies" / f"{name}-{view}-G{granularity}.html"
    write_report(found, target)
    partial = target.with_name(f".{target.stem}.json")
    partial.write_text(json.dumps(found), encoding="utf-8")
    partial.replace(target.with_suffix(".json"))
    if output is OutputFormat.table:
        emit([{name: row[name] for name in COLUMNS} for row in found["models"]], output)
    else:
        emit(found | {"report": str(target)}, output)
    say(_in_words(found, target))
    if failed:
        raise StageError(_failures(failed, len(listed.models)))


def _devices(listed: Corpus, data_dir: Path) -> list[dict[str, Any]]:
    """What PerfDB knows of the models' times; where there is none yet none is made for it."""
    from inferbench_tasks.brick_jobs.made_from import made_from
    from inferbench_tasks.brick_jobs.study_times import Member, times_of
    from inferbench_tasks.perfdb.folder import place
    from inferbench_tasks.perfdb.store import PerfDB

    if settings.perfdb_uri() is None and not place(data_dir).exists():
        return []
    members = []
    for entry in listed.models:
        of = named(entry.model, None)
        key: str | None
        try:
            key = made_from(of.spec, of.base_dir, "fp32", {})
        except InferBenchError:  # it will be said when it is cut
            key = None
        members.append(Member(of.name, entry.count, key))
    with PerfDB.connect(settings.perfdb_uri(), data_dir) as db:
        return times_of(db, members)


def _known(listed: Corpus, name: str) -> None:
    """Every model is one, before any is made."""
    unknown = []
    for entry in listed.models:
        try:
            named(entry.model, None)
        except InputError as error:
            unknown.append(f"{entry.model}: {error}")
    if unknown:
        raise InputError(f"{name} has models that are none:\n" + "\n".join(unknown), field="corpus")


def _studied(
    listed: Corpus, cuts: Cuts, view: str, granularity: int
) -> tuple[list[Studied], list[dict[str, str]]]:
    studied: list[Studied] = []
    failed: list[dict[str, str]] = []
    from inferbench_tasks.running.child import keeping

    with _progress() as bar, keeping():
        task = bar.add_task("", total=len(listed.models))
        for entry in listed.models:
            bar.update(task, description=entry.model)
            try:
                cut = _cut(entry, cuts, view, granularity)
            except InferBenchError as error:
                failed.append({"model": entry.model, "why": str(error)})
            else:
                studied.append(
                    Studied(
                        entry.model, entry.family, entry.count, cut, entry.layers_of_source, entry.differs
                    )
                )
            bar.advance(task)
    return studied, failed


def _cut(entry: Entry, cuts: Cuts, view: str, granularity: int) -> Cut:
    from inferbench_tasks.brick_jobs.inside import study as inside
    from inferbench_tasks.running.perform import perform
    from inferbench_tasks.stages.base import no_progress

    with asked(named(entry.model, None), no_progress) as (common, ctx):
        asked_for = inside.Input(**common, view=view, granularity=str(granularity))
        found: inside.Output = perform(inside, asked_for, ctx)
    cuts.put(found.cut, found.digest, found.shapes, view, str(granularity))
    return found.cut


def _failures(failed: list[dict[str, str]], of: int) -> str:
    listed = "\n".join(f"{one['model']}: {one['why']}" for one in failed)
    return f"{len(failed)} of {of} models can't be studied:\n{listed}"


def _in_words(found: dict[str, Any], target: Path) -> str:
    total, plain = found["totals"], found["totals_without_bookkeeping"]
    view = found["view"] + (f" ({found['instruction_set']})" if found["instruction_set"] else "")
    of = "layers" if found["granularity"] == 1 else f"bricks of at most {found['granularity']} layers"
    text = (
        f"{found['corpus']}, view {view}, batch 1: {total['models']} models of {total['architectures']} architectures, "
        f"{total['bricks']:,} {of}, {total['unique']:,} unique{_share(total)}.\n"
        f"Without bookkeeping (shapes, pads, indices, constants handed on): {plain['bricks']:,}, {plain['unique']:,} "
        f"unique{_share(plain)}."
    )
    stated = [row for row in found["models"] if row["layers_of_source"] is not None]
    if stated and found["view"] == "source":
        ours = sum(row["layers"] * row["copies"] for row in stated)
        theirs = sum(row["layers_of_source"] for row in stated)
        text += f"\nThe table that it is made after has {theirs:,} layers for these models, ours {ours:,}."
    return "\n".join([text, *_of_devices(found), f"Report: {target}"])


def _of_devices(found: dict[str, Any]) -> Iterator[str]:
    """What holds on each device; the table of all granularities is in the report."""
    from inferbench_tasks.analysis.bricks_devices import label, numbers

    for one, of_sets in zip(found["devices"], numbers(found["devices"]), strict=True):
        timed = f"{len(one['models'])} of {len(one['models']) + len(one['without'])} architectures timed as a whole"
        yield f"{label(one)}: {timed}."
        for row, number in zip(one["granularities"], of_sets, strict=True):
            calibrated = row["calibrated_geometric_mean"]
            yield (
                f"  G {row['granularity']}, {row['architectures']} architectures (set {number}): constructed "
                f"{row['geometric_mean']:.3f} of end-to-end (geometric mean), "
                f"{row['mean_absolute_error_ratio']:.1%} off on average"
                + (
                    f", calibrated {calibrated:.3f}, {row['calibrated_error_ratio']:.1%} "
                    f"({row['calibrated_models']} of them)"
                    if calibrated
                    else ""
                )
                + f"; speed-up as the paper counts {row['speedup_ratio']:.2f}"
            )


def _share(total: dict[str, Any]) -> str:
    return "" if total["unique_ratio"] is None else f" ({total['unique_ratio']:.1%})"


def _progress() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
