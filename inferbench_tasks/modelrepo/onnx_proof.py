"""Whether an ONNX graph answers as another does, or its rows apart from each other, on made-up inputs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import noise_like
from inferbench_tasks.formats.macs import all_nodes, attribute
from inferbench_tasks.formats.onnx import signature
from inferbench_tasks.modelrepo.loudness import differs, mixes
from inferbench_tasks.modelrepo.proving import PROVED_AT

TOLERANCE_RATIO = 1e-4
#: Where values are rounded inside, sums in another order may fall on the other side.
ROUNDED_RATIO = 2e-2
SIZE = 16
#: Made-up texts: those that tables of texts are likely to have, and some that they have not.
TEXTS = ("", "0", "1", "2", "a", "A", "b", "c", "cat", "dog", "no", "yes", "true", "\u00e4", "two words")
SCALES_OF_A_BATCH = {
    "DynamicQuantizeLinear",
    "DynamicQuantizeMatMul",
    "DynamicQuantizeLSTM",
    "MatMulIntegerToFloat",
}


def noise(session: Any, bounds: dict[str, int], rows: int | None) -> Arrays:
    """Made-up inputs: ``rows`` along the first axis; as the session's inputs are shaped themselves if None."""
    rng = np.random.default_rng(0)
    arrays: Arrays = {}
    for spec, value in zip(signature(session)[0], session.get_inputs(), strict=True):
        spec = spec.model_copy(update={"below": bounds.get(spec.name)})
        if rows is None:
            sizes = tuple(size if isinstance(size, int) else -1 for size in value.shape)
            arrays[spec.name] = _made_up(spec.model_copy(update={"shape": sizes}), 1, rng)[0]
        else:
            arrays[spec.name] = _made_up(spec, rows, rng)
    return arrays


def _made_up(spec: TensorSpec, rows: int, rng: np.random.Generator) -> Array:
    if spec.dtype != "str":
        return noise_like(spec, rows, rng, SIZE)
    sizes = (rows, *(SIZE if size == -1 else size for size in spec.shape))
    return rng.choice(np.array(TEXTS, dtype=object), sizes)


def ask(session: Any, arrays: Arrays) -> Arrays:
    names = [value.name for value in session.get_outputs()]
    try:
        return dict(zip(names, session.run(names, arrays), strict=True))
    except Exception as error:  # whatever a runtime raises is a reason
        raise RefusedError(" ".join(str(error).split())[:300]) from error


class RefusedError(Exception):
    """The model could not be run on made-up inputs."""


def mixed(model: Any, session: Any, bounds: dict[str, int]) -> str | None:
    """Why free first axes are no batch axes; None if they are, or where that only real inputs can show."""
    if SCALES_OF_A_BATCH & {node.op_type for node in model.graph.node}:
        return None  # rows do influence each other then, within the tolerance that the submission allows
    try:
        arrays = noise(session, bounds, max(PROVED_AT))
        together = ask(session, arrays)
        for row in range(2):
            alone = ask(session, {name: array[row : row + 1] for name, array in arrays.items()})
            expected = {name: _row(array, row) for name, array in together.items()}
            # Made-up inputs may make little differences large; those of real ones are looked at more closely later.
            if reason := answers_differ(alone, expected, ROUNDED_RATIO):
                return f"the free first axis is no batch axis: {reason}"
        if reason := mixes(partial(ask, session), arrays, ROUNDED_RATIO):
            return f"the free first axis is no batch axis: {reason}"
    except RefusedError:
        try:
            ask(session, noise(session, bounds, 1))
        except RefusedError:
            return _as_long(
                session, bounds
            )  # None: it wants other inputs than these, and the real ones will show
        return "the free first axis is no batch axis: the model refuses more than one row"
    return None


def _as_long(session: Any, bounds: dict[str, int]) -> str | None:
    """Whether it runs where the first axis of an input is as long as another one of the same name, and only then."""
    alike = [value.name for value in session.get_inputs() if value.shape[0] in value.shape[1:]]
    try:
        if alike:
            ask(session, noise(session, bounds, SIZE))
    except RefusedError:
        return None
    if not alike:
        return None
    return (
        f"the free first axis is no batch axis: that of {', '.join(alike)} has to be as long as another one"
    )


def tolerance_of(model: Any) -> float:
    from onnx import TensorProto

    halves = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in model.graph.input}
    rounds = any(
        node.op_type == "QuantizeLinear" or _casts_to(node, halves) for node in all_nodes(model.graph)
    )
    return ROUNDED_RATIO if rounds or kinds & set(halves) else TOLERANCE_RATIO


def _casts_to(node: Any, kinds: tuple[int, ...]) -> bool:
    return node.op_type == "Cast" and attribute(node, "to", 0) in kinds


def _row(array: Any, row: int) -> Any:
    return array[row : row + 1] if isinstance(array, np.ndarray) and array.ndim else array


def answers_differ(answer: Arrays, expected: Arrays, tolerance_ratio: float) -> str | None:
    """Where two answers differ beyond what another order of sums may. Made-up inputs may lead to NaN: in both, then."""
    nan = {
        name
        for name, a in expected.items()
        if isinstance(a, np.ndarray) and a.dtype.kind == "f" and np.isnan(a).any()
    }
    if any(not np.array_equal(np.isnan(answer[name]), np.isnan(expected[name])) for name in nan):
        return "it answers NaN elsewhere"
    return differs(
        answer | {name: np.nan_to_num(answer[name]) for name in nan},
        expected | {name: np.nan_to_num(expected[name]) for name in nan},
        tolerance_ratio,
    )
