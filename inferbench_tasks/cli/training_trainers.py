"""``inferbench training trainers``: the engines that trainings can run by."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.training.trainers.base import TRAINERS, Trainer


def trainers(output: OutputFormat = OUTPUT) -> None:
    """List the engines (train.trainer): what each needs, whether that is installed here, and who brings it."""
    emit([_row(kind) for kind in TRAINERS], output)


def _row(kind: str) -> dict[str, Any]:
    origin = TRAINERS.origin(kind)
    try:
        package, there = TRAINERS.told(kind, _needs)
    except InferBenchError as error:  # one broken plug-in hides no other trainer
        return {"trainer": kind, "package": "", "version": None, "here": f"no: {error}", "origin": origin}
    here = "yes" if there is not None else f"no: {package} is not installed"
    return {"trainer": kind, "package": package, "version": there, "here": here, "origin": origin}


def _needs(trainer: type[Trainer]) -> tuple[str, str | None]:
    """The distribution that it is of, and its version here; None where it is not installed."""
    try:
        return trainer.package, version(trainer.package)
    except PackageNotFoundError:
        return trainer.package, None
