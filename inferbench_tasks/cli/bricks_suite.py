"""``inferbench bricks export|run|import``: models that are not shown, timed by somebody else."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress

from inferbench_tasks import settings
from inferbench_tasks.cli.bricks_model import asked, named, sizes_of
from inferbench_tasks.cli.bricks_options import BATCH, FRAMEWORK, GRANULARITY, SHAPE
from inferbench_tasks.cli.bricks_progress import progress
from inferbench_tasks.errors import InputError, StageError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say

if TYPE_CHECKING:
    from inferbench_tasks.brick_jobs.cutting import CutModel, ToMeasure
    from inferbench_tasks.brick_jobs.facts import BrickFacts

MODELS = typer.Argument(
    ..., metavar="MODEL...", help="Built-in models, NAME@VERSION, or models' files or folders."
)
DUMMIES = typer.Option(
    0, "--dummies", min=0, max=1000, help="So many models that are drawn near these, beside them."
)
SUITE = typer.Option(..., "-o", "--to", metavar="FOLDER", help="The suite's folder; a new or an empty one.")
RUNS = typer.Option(100, "--runs", min=15, max=10_000, help="Runs of each network, in all rounds together.")
ROUNDS = typer.Option(
    3, "--rounds", min=3, max=20, help="Rounds; each times all networks, in an order of its own."
)
FOLDER = typer.Argument(..., metavar="SUITE", help="The folder that was exported.")
RESULTS = typer.Option(
    Path("suite-results.json"), "-o", "--to", metavar="FILE", help="Where the times are written."
)
THREADS = typer.Option(1, "--threads", min=1, help="ONNX Runtime's threads, each with a core of its own.")
FILE = typer.Argument(..., metavar="RESULTS", help="The file that `bricks run` wrote.")
DEVICE = typer.Option("", "--device", help="Part of the processor's name that the results have to be of.")
FORMAT = typer.Option(OutputFormat.table, "--format", help="table, json or yaml.")


def export(
    models: list[str] = MODELS,
    dummies: int = DUMMIES,
    to: Path = SUITE,
    granularity: str = GRANULARITY,
    batch: int = BATCH,
    shape: list[str] = SHAPE,
    framework: str | None = FRAMEWORK,
    runs: int = RUNS,
    rounds: int = ROUNDS,
    output: OutputFormat = FORMAT,
) -> None:
    """Write the models' unique bricks as a suite that somebody else can time, without the models' own numbers.

    What belongs to which model is noted in PerfDB here. With --dummies bricks of invented models are among them.
    """
    from inferbench_tasks.brick_jobs import suites
    from inferbench_tasks.brick_jobs.store import PerfDBResults
    from inferbench_tasks.bricks.measure.method import runs_problem
    from inferbench_tasks.bricks.measure.session import cores_for, setting
    from inferbench_tasks.bricks.sequences import parse_granularity
    from inferbench_tasks.bricks.suite.manifest import Wish
    from inferbench_tasks.perfdb.store import PerfDB

    if twice := sorted({model for model in models if models.count(model) > 1}):
        raise InputError(f"named twice: {', '.join(twice)}", field="model")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InputError(f"{to} is there already; name an empty folder", field="to")
    most = parse_granularity(granularity)
    if (problem := runs_problem(runs, rounds)) is not None:
        raise InputError(problem, field="runs")
    wish = Wish(runs=runs, rounds=rounds, budget_s=2.0)
    how: dict[str, Any] = {
        "granularity": (most or "whole",),
        "batch_sizes": (batch,),
        "method": wish.method(),
    }
    how["shapes"] = dict(sizes_of(text) for text in shape)
    own: list[ToMeasure] = []
    drawn: list[ToMeasure] = []
    cuts: list[CutModel] = []
    facts: list[BrickFacts] = []
    chosen = [named(model, framework) for model in models]
    with progress() as bar, ExitStack() as kept:
        task = bar.add_task("preparing", total=None)
        for model in chosen:
            one = _cut(kept, bar, model, {**how, "dummy": None})
            own += one.missing
            cuts += one.cuts
            facts += one.facts
        for at in range(dummies):
            bar.update(task, description=f"drawing dummy {at + 1} of {dummies}")
            drawn += _cut(kept, bar, chosen[at % len(chosen)], {**how, "dummy": secrets.randbits(48)}).missing
        db = kept.enter_context(PerfDB.connect(settings.perfdb_uri(), settings.data_dir()))
        counts = suites.write(to, own, drawn, wish, [model.name for model in chosen], db)
        PerfDBResults(db, setting(cores_for(1), 1)).put_cuts(cuts, facts)
    if output is not OutputFormat.table:
        emit({**counts, "folder": str(to)}, output)
    say(
        f"{counts['networks']} networks in {to}, {counts['own']} of them of {', '.join(one.name for one in chosen)}. "
        f"Who has InferBench times them by `inferbench bricks run {to.name}`; what comes back is read by `inferbench "
        "bricks import`."
    )
    if not dummies:
        say("Without --dummies each of them is one of yours: shapes tell how they follow one another.")


def run(
    suite: Path = FOLDER, to: Path = RESULTS, threads: int = THREADS, output: OutputFormat = FORMAT
) -> None:
    """Time the networks of a suite on this machine and write their times; nothing is needed but the suite."""
    from inferbench_tasks.bricks.suite.manifest import canonical
    from inferbench_tasks.bricks.suite.run import run_suite

    if to.exists():
        raise InputError(f"{to} is there already; name another file", field="to")
    with progress() as bar:
        task = bar.add_task("looking at the suite", total=None)
        answer = run_suite(
            suite,
            threads,
            lambda done, of, what: bar.update(task, description=what, completed=done, total=of),
        )
    try:
        to.write_bytes(canonical(answer))
    except OSError as error:
        raise StageError(f"{to} can't be written: {error.strerror}") from None
    timed = sum(len(rounds[0].times) for rounds in answer.sessions)
    counts = {
        "suite": answer.suite,
        "device": answer.setting.processor,
        "timed": timed,
        "failed": answer.failed,
    }
    if output is not OutputFormat.table:
        emit({**counts, "file": str(to)}, output)
    say(f"{timed} networks timed on {answer.setting.processor}; their times are in {to}.")
    for name, why in answer.failed.items():
        say(f"{name} can't be timed here: {why}")


def take_in(results: Path = FILE, device: str = DEVICE, output: OutputFormat = OUTPUT) -> None:
    """Take in the times of a suite that was exported from here: predictions of its models then use them.

    They are refused as a whole where a byte was changed, or where they can't be what they claim.
    """
    from inferbench_tasks.brick_jobs.suites import taken_in
    from inferbench_tasks.bricks.suite.answer import read_answer
    from inferbench_tasks.perfdb.store import PerfDB

    answer = read_answer(results)
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        found = taken_in(answer, db, device)
    if output is not OutputFormat.table:
        emit(found, output)
    say(
        f"{found['stored']} bricks of {', '.join(found['models'])} have times on {found['device']}, "
        f"{found['runtime']}; {found['dummies']} networks of dummies were left out."
    )
    for name, why in found["failed"].items():
        say(f"{name} could not be timed there: {why}")
    say(f"inferbench bricks predict MODEL --view portable --device '{found['device']}' adds them up.")


def _cut(kept: ExitStack, bar: Progress, model: Any, how: dict[str, Any]) -> Any:
    """One model in the portable view; its networks stay until the suite is written."""
    from inferbench_tasks.brick_jobs.cut_all import asked_to_cut

    common, ctx = kept.enter_context(
        asked(model, lambda done, of, what: bar.update(bar.task_ids[0], description=f"{model.name}: {what}"))
    )
    return asked_to_cut(ctx, set(), **common, **how, wholes=False, view="portable")
