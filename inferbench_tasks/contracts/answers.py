"""What a model's answers are: scores of classes, vectors, or values of another kind. A figure fits one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.contracts.handles import TensorSpec

#: ``classes``: a score for each class, or the number of one. ``vectors``: an embedding, in which directions count.
#: ``values``: anything else (boxes, images, sequences of scores).
Meaning: TypeAlias = Literal["classes", "vectors", "values"]
MEANINGS: tuple[Meaning, ...] = ("classes", "vectors", "values")
#: The scenario of an evaluation without a load.
ONE_BY_ONE = "one_by_one"

#: Of an output: numpy's kind of its type ("f", "i"), and the shape of one sample.
_Output = tuple[str, Sequence[int]]


def meaning_of_specs(task: str | None, outputs: Iterable[TensorSpec]) -> Meaning:
    """By the signature; ``task`` as in ``ModelArtifact``. A model without a task gives values."""
    kinds = ((_kind(spec.dtype), spec.shape) for spec in outputs)
    return _meaning(task, list(kinds), labelled=False)


def meaning_of(task: str | None, answers: Arrays, *, labelled: bool) -> Meaning:
    """By answers, first axis = samples. Who gives labels to a model without a task says that it names classes."""
    return _meaning(task, [(a.dtype.kind, a.shape[1:]) for a in answers.values()], labelled=labelled)


def classes_scored(outputs: Iterable[TensorSpec]) -> int | None:
    """How many classes a model gives a score each, by its first output of numbers; None where that can't be told."""
    specs = list(outputs)
    if any(s.dtype.startswith(("int", "uint")) and all(n == 1 for n in s.shape) for s in specs):
        return None  # it names a class by its number, and what stands beside may have another order
    shapes = [spec.shape for spec in specs if spec.dtype.startswith(("float", "bfloat"))]
    sizes = [size for size in shapes[0] if size != 1] if shapes else []
    return sizes[0] if len(sizes) == 1 and sizes[0] > 1 else None


def _meaning(task: str | None, outputs: list[_Output], *, labelled: bool) -> Meaning:
    if (task or "").endswith("embedding"):
        return "vectors"
    classifies = (task or "").endswith("classification") or (task is None and labelled)
    return "classes" if classifies and _names_classes(outputs) else "values"


def _names_classes(outputs: list[_Output]) -> bool:
    """An output is one whole number for each sample, or the first of numbers has one axis of several.

    One score for each sample names no class (which side of which bound?), and of a score for each word or box the
    largest is none of the sample.
    """
    if any(kind in "iu" and all(size == 1 for size in shape) for kind, shape in outputs):
        return True
    scores = [shape for kind, shape in outputs if kind == "f"]
    return bool(scores) and sum(size != 1 for size in scores[0]) == 1


def _kind(dtype: str) -> str:
    if dtype.startswith(("float", "bfloat")):
        return "f"
    return {"int": "i", "uin": "u", "boo": "b"}.get(dtype[:3], "O")
