"""``inferbench training trainers``: the engines that trainings can run by."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.output import OUTPUT, OutputFormat, emit
from inferbench_tasks.training.trainers.base import TRAINERS


def trainers(output: OutputFormat = OUTPUT) -> None:
    """List the engines (train.trainer): what each needs, whether that is installed here, and who brings it."""
    emit([_row(kind) for kind in TRAINERS], output)


def _row(kind: str) -> dict[str, Any]:
    origin = TRAINERS.origin(kind)
    try:
        package = TRAINERS.load(kind).package
        here = f"no: {package} is not installed"
    except InferBenchError as error:  # one broken plug-in hides no other trainer
        return {"trainer": kind, "package": "", "version": None, "here": f"no: {error}", "origin": origin}
    try:
        return {
            "trainer": kind, "package": package, "version": version(package), "here": "yes", "origin": origin,
        }  # fmt: skip
    except PackageNotFoundError:
        return {"trainer": kind, "package": package, "version": None, "here": here, "origin": origin}
