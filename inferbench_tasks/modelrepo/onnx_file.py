"""An ONNX file of anybody's, as a model that can be served: its batch axis made free where the graph allows it.

What is changed is proved: the changed model answers made-up inputs as the file's own does (``proving``). Where that
fails, the file is served as it is, a call at a time. ``ORIGINAL`` keeps the file's own graph, which answers the run's
real requests, so that the changed one is compared with it once more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats import onnx_edges
from inferbench_tasks.formats.base import Predict
from inferbench_tasks.formats.calls import by_calls
from inferbench_tasks.formats.exposed import run_exposed
from inferbench_tasks.formats.index_bounds import index_bounds
from inferbench_tasks.formats.macs import all_nodes, operator
from inferbench_tasks.formats.onnx import open_session, signature
from inferbench_tasks.formats.onnx_batch import BatchStuckError, Freed
from inferbench_tasks.formats.stored_precision import FULL, onnx_precision
from inferbench_tasks.modelrepo.onnx_drawing import drawing
from inferbench_tasks.modelrepo.onnx_proof import (
    RefusedError,
    answers_differ,
    ask,
    mixed,
    noise,
    tolerance_of,
)
from inferbench_tasks.modelrepo.proving import PROVED_AT, freed_note, proof

#: The file as it came, where its batch was made free.
ORIGINAL = "original.onnx"


@dataclass(frozen=True)
class Adapted:
    """``batch_size``: how many samples each call has; None: any number. ``notes``: what was done, in words.

    ``parameters``: where they are known already. ``precision``: of the file's weights, see ``stored_precision``.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch_size: int | None
    notes: tuple[str, ...]
    parameters: int | None = None
    precision: str = FULL


def adapt(path: Path, shown: str) -> Adapted:
    """Make the file one whose inputs and outputs have a first axis of samples; it is written anew where that is needed.

    Raises InputError, which names what is in the way, where no request could carry what it takes or gives.
    """
    import onnx

    session = _open(path, shown)
    if not session.get_inputs():
        raise InputError(
            f"{shown} has no inputs: it always answers the same, and no request could carry anything; give it an input",
            field="model.path",
        )
    model = onnx.load(path, load_external_data=False)
    if drawn := drawing(model):
        raise InputError(
            f"{shown} draws random numbers ({', '.join(drawn)}): no answer of it could be checked; give it the numbers "
            f"as an input, or export it without them (in evaluation mode)",
            field="model.path",
        )
    bounds = index_bounds(model)
    notes = onnx_edges.tidy(model)
    if notes:
        onnx.save(model, path)
        session = _open(path, shown)
    first = {value.name: value.shape[0] if value.shape else None for value in session.get_inputs()}
    sizes = {size for size in first.values() if isinstance(size, int)}
    ranked = all(value.shape for value in session.get_inputs())
    batch: int | None = None
    if ranked and not sizes:
        if repaired := _keep_axes(model, session, bounds, path.parent):
            onnx.save(model, path)
            session = _open(path, shown)
            notes += repaired
        if reason := mixed(model, session, bounds):
            notes += [reason, *_frame(model, session, path)]
            batch = 1
    elif (
        ranked
        and len(sizes) == 1
        and all(isinstance(size, int) for size in first.values())
        and min(sizes) > 0
    ):
        (batch,) = sizes
        reason = _free(path, shown, session, bounds, batch)
        if reason is None:
            notes.append(freed_note(batch))
            batch = None
        else:
            notes.append(f"the batch of {batch} can't be made free: {reason}")
            if batch > 1 and any(value.shape[:1] != [batch] for value in session.get_outputs()):
                notes += _frame(model, session, path)
                batch = 1
            elif batch == 1:
                notes += _frame(model, session, path, kept=1)
    else:
        notes += _frame(model, session, path, kept=1)
        batch = 1
    inputs, outputs = signature(_open(path, shown))
    bounded = (spec.model_copy(update={"below": bounds.get(spec.name)}) for spec in inputs)
    return Adapted(tuple(bounded), outputs, batch, tuple(notes), precision=onnx_precision(model))


def _open(path: Path, shown: str) -> Any:
    try:
        return open_session(path, optimise=False)
    except InputError as error:
        cause = " ".join(str(error.__cause__ or error).replace(str(path), shown).split()).rstrip(".")
        raise InputError(
            f"ONNX Runtime here can't load {shown}: {cause}. {remedy(cause)}", field="model.path"
        ) from error


def remedy(cause: str) -> str:
    """What helps where ONNX Runtime refuses a file, by what it said; by its answers every backend is checked."""
    if locale := re.search(r"[Ll]ocale with name:?\s*([\w.-]+)", cause):
        return (
            f"The operator is standard; this machine lacks its locale: make it (locale-gen {locale[1]}), or export "
            "with one that is here (`locale -a` lists them; an image brings its own)"
        )
    if "tensor(complex" in cause:
        return "No runtime here computes with such values; export real and imaginary parts as two numbers"
    if "NOT_IMPLEMENTED" in cause or "Could not find an implementation" in cause:
        return (
            "The operator may well be standard: ONNX Runtime has no CPU kernel of it for these data types, and a run's "
            "answers are checked by that, whatever serves them. Export it in fp32 or fp16 (`convert.precision` makes "
            "others of that), or as OpenVINO's own file (.xml), which its own runtime loads"
        )
    return "Export it with standard operators, of an opset that this version knows"


def _keep_axes(model: Any, session: Any, bounds: dict[str, int], folder: Path) -> list[str]:
    """A Squeeze of all axes of 1 takes the batch's too where there is one sample: it gets the others' numbers."""
    blind = [n for n in model.graph.node if operator(n) == "Squeeze" and len(n.input) < 2 and not n.attribute]
    if not blind:
        return []
    rows, notes = max(PROVED_AT), []
    try:
        values = run_exposed(model, noise(session, bounds, rows), folder)
    except InputError:
        return []
    for node in blind:
        shape = values[node.input[0]].shape
        axes = [axis for axis, size in enumerate(shape) if size == 1]
        if not shape or shape[0] != rows or not axes:
            continue
        onnx_edges.give_axes(model, node, axes)
        notes.append(f"Squeeze ({node.output[0]}) leaves the batch axis where one sample comes alone")
    return notes


def _free(path: Path, shown: str, session: Any, bounds: dict[str, int], batch: int) -> str | None:
    """Write the model with a free batch, the file as it was beside it; None, or why that is not possible."""
    import onnx
    import onnx.inliner

    model = onnx.load(path, load_external_data=False)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    static = all(isinstance(size, int) for value in session.get_inputs() for size in value.shape)
    trial = path.with_name("free.onnx")
    try:
        arrays = noise(session, bounds, batch)
        Freed(model, run_exposed(model, arrays, path.parent), batch, static).run()
        onnx.save(model, trial)
        freed = _open(trial, shown)
        tolerance_ratio = tolerance_of(model)
        reason = proof(
            _as_freed(session, freed),
            partial(ask, freed),
            partial(noise, freed, bounds),
            batch,
            partial(answers_differ, tolerance_ratio=tolerance_ratio),
            tolerance_ratio,
        )
    except (BatchStuckError, RefusedError, InputError) as error:
        reason = str(error)
    if reason is not None:
        trial.unlink(missing_ok=True)
        return reason
    path.rename(path.with_name(ORIGINAL))
    trial.rename(path)
    return None


def _frame(model: Any, session: Any, path: Path, kept: int | None = None) -> list[str]:
    """One call is one sample; a first axis of ``kept`` is an axis of samples already."""
    import onnx

    def without(values: Any) -> list[Any]:
        return [v for v in values if kept is None or not v.shape or v.shape[0] != kept]

    shapes = {value.name: tuple(value.shape) for value in without(session.get_inputs())}
    outputs = {value.name: True for value in without(session.get_outputs())}
    if any(value.name in outputs and value.type.startswith("seq") for value in session.get_outputs()):
        raise InputError(
            f"{path.name} answers with sequences; export it with tensors alone", field="model.path"
        )
    notes = onnx_edges.frame(model, shapes, outputs)
    onnx.save(model, path)
    return notes


def _as_freed(session: Any, freed: Any) -> Predict:
    """The answers of the file's own graph; an output that has no axis for its only sample gets it."""
    ranks = {value.name: len(value.shape) for value in freed.get_outputs()}

    def predict(arrays: Arrays) -> Arrays:
        answers = ask(session, arrays)
        return {name: a[np.newaxis] if a.ndim == ranks[name] - 1 else a for name, a in answers.items()}

    return predict


def original(path: Path) -> Predict | None:
    """The file's own answers, for a model whose batch was made free; None for others."""
    file = path.with_name(ORIGINAL)
    if not file.is_file():
        return None
    session = open_session(file)
    batch = session.get_inputs()[0].shape[0]
    predict = _as_freed(session, open_session(path))
    return lambda arrays: by_calls(predict, arrays, batch)


def operators(path: Path) -> dict[str, int]:
    """How often each operator stands in an ONNX file, in bodies and functions too."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    nodes = all_nodes(model.graph) + [node for function in model.functions for node in function.node]
    counts: dict[str, int] = {}
    for node in nodes:
        counts[operator(node)] = counts.get(operator(node), 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
