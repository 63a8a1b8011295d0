"""``inferbench models inspect``: what a model file takes and gives, what runs it here, and a submission for it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import typer
from pydantic import ValidationError

from inferbench_tasks import settings
from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.cli.inspected_submission import SIZE, free_axes, made_up, size_of, submission, texts
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.route import possible_precisions, route
from inferbench_tasks.output import OUTPUT, OutputFormat, emit, say
from inferbench_tasks.problem import dotted
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import inspection
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.fixed_batch import needs_free
from inferbench_tasks.submission.explain import explain
from inferbench_tasks.submission.schema import JobSpec, Submission


def inspect(
    file: Path = typer.Argument(..., metavar="FILE", help="A model's file or folder."),
    signature: str | None = typer.Option(
        None, "--signature", help="Of a SavedModel: which of its signatures."
    ),
    module: Path | None = typer.Option(
        None,
        "--module",
        metavar="FILE",
        help="Of .safetensors: the Python file that builds the network; it is run.",
    ),
    factory: str | None = typer.Option(
        None, "--factory", help="The function of --module that returns the network; `build` unless given."
    ),
    output: OutputFormat = OUTPUT,
) -> None:
    """Say what a model file takes, gives and costs, what runs it here, what is refused, and a submission to run.

    The file is read in a child process in the sandbox, as a run does; a file that can't be served is refused with the
    reason and what helps. FLOPs are per sample; operators that can't be counted are named, and leave them unknown.
    """
    fields = {
        "signature": signature,
        "module": _beside(file, module) if module is not None else None,
        "factory": factory,
    }
    document = inspected(file, {name: value for name, value in fields.items() if value is not None})
    if output is not OutputFormat.table:
        emit(document, output)
        return
    submission, runs = document.pop("submission"), document.pop("runs")
    operators = ", ".join(f"{name} ({count})" for name, count in document.pop("operators").items())
    for part in ("inputs", "outputs"):
        document[part] = "; ".join(f"{t['name']} {t['dtype']}{t['shape']}" for t in document[part])
    # Sentences, in tables of their own: in a pipe each line is as wide as the longest of its table.
    sentences = {part: document.pop(part) for part in ("adapted", "refused")}
    emit({**document, "operators": operators or None}, output)
    emit(runs, output)
    for part, words in sentences.items():
        if words:
            emit([{part: each} for each in words], output)
    say("A submission, to be saved beside the file and run by `inferbench run`:\n")
    typer.echo(submission)


def inspected(file: Path, fields: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """All that is said of a file, as plain data. Raises the InferBenchError that a run would fail with.

    ``fields``: of a submission's ``model``, beside the path.
    """
    path = file.absolute()
    job = _job(path, fields)
    run_id = f"inspect-{uuid4().hex[:12]}"
    ctx = Context(data_dir=settings.writable(settings.data_dir()), base_dir=path.parent)
    try:
        found = perform(inspection, inspection.Input(run_id=run_id, job_id="inspect", job=job), ctx)
    finally:
        shutil.rmtree(ctx.data_dir / "runs" / run_id, ignore_errors=True)
    return described(found.model, found.operators, path, fields)


def _job(path: Path, fields: Mapping[str, str]) -> JobSpec:
    if not path.name:
        raise InputError(f"{path} is no model's file or folder", field="model.path")
    if path.suffix.lower() == ".safetensors" and "module" not in fields:
        raise InputError(
            f"{path.name} has weights and no network; name the Python file that builds it (--module net.py), or "
            "export the model to ONNX",
            field="model.path",
        )
    job = {
        "name": "inspect",
        "model": {"kind": "file", "path": path.name, **fields},
        "load": {"arrivals": {"kind": "constant", "rate_rps": 1.0}},
    }
    try:
        return JobSpec.model_validate(job)
    except ValidationError as error:
        at, words = explain(error, job, Submission)[0]
        raise InputError(words, field=dotted(at)) from error


def _beside(file: Path, module: Path) -> str:
    """The module's path from the folder of the weights, as a submission there names it."""
    folder = file.absolute().parent
    try:
        return module.absolute().relative_to(folder).as_posix()
    except ValueError:
        raise InputError(
            f"{module} is not below {folder}, the folder of {file.name}; put it there", field="--module"
        ) from None


def described(
    model: ModelArtifact, operators: dict[str, int], path: Path, fields: Mapping[str, str]
) -> dict[str, Any]:
    """A model's facts, the backends that serve it, and a submission."""
    runs, refused = _runs(model)
    size = model.batch_size
    if size is not None:
        refused.append(f"serve.batching: leave it out, each call has {size} sample(s)")
        refused.append(f"load.batch_size: has to be {size}")
    if texts(model):
        refused.append(
            "made-up requests for text: give requests: {kind: files, path: texts.txt or samples.npz}"
        )
    if not made_up(model):
        refused.append(
            "made-up requests: the model refuses them; give requests: {kind: files, path: samples.npz}"
            + (
                f", or sizes that it takes: requests: {{kind: random, sizes: [{size_of(model)}]}}"
                if free_axes(model)
                else ""
            )
        )
    return {
        "name": model.name,
        "format": model.format,
        "inputs": [_shown(spec, size) for spec in model.inputs],
        "outputs": [_shown(spec, size) for spec in model.outputs],
        "batch": "any" if size is None else size,
        "adapted": list(model.adapted),
        "parameters": model.parameters,
        "flops": model.flops,
        "bytes": model.bytes,
        "not_counted": "; ".join(filter(None, [model.costs_reason, _uncounted(model, operators)])) or None,
        "counted_with": f"{SIZE} for each of the free sizes {', '.join(axes)}"
        if (axes := free_axes(model)) and model.flops is not None
        else None,
        "operators": operators,
        "runs": runs,
        "refused": refused,
        "submission": submission(model, path, runs, fields),
    }


def _uncounted(model: ModelArtifact, operators: dict[str, int]) -> str | None:
    """What a model without multiply-adds computes all the same: 0 FLOPs would say that it does nothing."""
    if model.flops != 0 or not operators:
        return None
    return f"flops are of multiply-adds alone, which it has none of; not counted: {', '.join(operators)}"


def _shown(spec: TensorSpec, size: int | None) -> dict[str, Any]:
    row = spec.model_dump(mode="json")
    return {**row, "shape": [-1 if size is None else size, *spec.shape]}


def _runs(model: ModelArtifact) -> tuple[list[dict[str, Any]], list[str]]:
    """A row per backend and format that leads to an answer; what keeps other backends from it, and what helps."""
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    tensors = FORMATS.load(model.format).tensors
    without: list[str] = []
    unconverted: list[str] = []
    for kind in BACKENDS:
        try:
            backend: type[Backend] = BACKENDS.load(kind)
        except InferBenchError as error:
            refused.append(f"{kind}: {error}")
            continue
        formats = [form for form in backend.formats if possible_precisions(model.format, form)]
        if backend.streams == tensors or not formats:
            continue
        if model.batch_size is not None and not backend.fixed_batches:
            without.append(kind)
            continue
        for form in formats:
            if form != model.format and (reason := FORMATS.load(form)().refusal(model)):
                unconverted.append(f"{kind}: {reason}")
                continue
            as_it_is = not tensors and form == model.format
            precisions = (model.precision,) if as_it_is else possible_precisions(model.format, form)
            hops = () if as_it_is else route(model.format, form, precisions[0])
            reason = FORMATS.load(form)().unavailable() or backend.unavailable("process")
            rows.append(
                {
                    "backend": kind,
                    "format": form,
                    "precisions": ", ".join(precisions),
                    "way": " -> ".join([model.format, *(hop.target for hop in hops)]),
                    "here": reason or "yes",
                }
            )
    refused += [f"{kind}: it {needs_free(model)}" for kind in without]
    if taken := [row["backend"] for row in rows if row["format"] == model.format]:
        unconverted = [f"{words}; {' or '.join(taken)} takes it as it is" for words in unconverted]
    return rows, refused + unconverted
