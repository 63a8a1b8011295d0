"""What can't be measured of a model on a data set, as far as both are described: before either is made or read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from inferbench_tasks.contracts.answers import Meaning, classes_scored, meaning_of_specs
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.models import ModelSource, Signature
from inferbench_tasks.contracts.targets import PREFIX
from inferbench_tasks.datasets.base import DATASETS
from inferbench_tasks.datasets.described import Described, description_of
from inferbench_tasks.datasets.same_classes import ModelClasses, why_others
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.quality.base import NO_RULE, Measure
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.quality.targets import TargetMeasure


@dataclass(frozen=True)
class Foreseen:
    """Of a model's answers to a data set's samples; None: not known before they are there.

    ``meaning``: what the answers are. ``labelled``: whether there are labels that they may be set against. ``scored``:
    whether they have several numbers. ``targets``: the kinds of what is right where that is no class. ``ruled``:
    whether the model's own rule for what it says is known. ``reason``: why the model's answers are set against nothing;
    "" where nothing forbids it.
    """

    meaning: Meaning | None = None
    labelled: bool | None = None
    scored: bool | None = None
    targets: frozenset[str] | None = None
    ruled: bool | None = None
    reason: str = ""

    @classmethod
    def of(cls, source: ModelSource, dataset: str | None) -> Foreseen:
        """``dataset``: as ``evaluate.dataset`` names it, None: the model's own."""
        signature = source.signature()
        labelled, targets = _own(source.dataset()) if dataset is None else _named(dataset)
        return cls(
            _meaning(source.task, signature),
            False if source.accuracy_reason else labelled,
            _scored(signature),
            targets,
            None if source.names_classes else False,
            source.accuracy_reason or "",
        )


def unfit_classes(source: ModelSource, dataset: str) -> str | None:
    """Why the labels of that data set are no classes of the model; None if they may be.

    Data with targets of other kinds is held to these where the classes are others, and labels are not used at all of a
    model whose answers are set against nothing.
    """
    described = _described(dataset)
    if described is None or not described.labels or _kinds(described) or source.accuracy_reason:
        return None
    signature = source.signature()
    model = ModelClasses.of(source, source.name, classes_scored(signature[1]) if signature else None)
    return why_others(dataset, tuple(described.labels), model, by_name=False, listed=False)


def unfit_measures(source: ModelSource, dataset: str | None, names: Iterable[str]) -> dict[str, str]:
    """Measure -> why it can't be had on that data set, and which may be; of those that are certain not to fit."""
    foreseen = Foreseen.of(source, dataset)
    reasons = {name: reason for name in names if (reason := _missing(name, foreseen)) is not None}
    if not reasons:
        return {}
    fitting = ", ".join(name for name in MEASURES if _missing(name, foreseen) is None) or "none"
    data = dataset or "the model's own data"
    return {
        name: f"{name} can't be had on {data} with this model: {reason}. Measures that may fit: {fitting}"
        for name, reason in reasons.items()
    }


def _missing(name: str, foreseen: Foreseen) -> str | None:
    try:
        return MEASURES.told(name, partial(_lacks, foreseen))
    except InferBenchError as error:  # one of a package that can't be used
        return str(error)


def _lacks(foreseen: Foreseen, measure: type[Measure]) -> str | None:
    """As ``Measure.missing`` has it of answers, of what is known before."""
    if issubclass(measure, TargetMeasure):
        if foreseen.targets is not None and measure.target not in foreseen.targets:
            return f"the data set has no {PREFIX}{measure.target}"
        return foreseen.reason or None
    if foreseen.meaning is not None and foreseen.meaning not in measure.meanings:
        return f"it is of {' and '.join(measure.meanings)}; the model answers {foreseen.meaning}"
    if measure.labelled and foreseen.labelled is False:
        return foreseen.reason or "the data set has no labels"
    if measure.scored and foreseen.scored is False:
        return "the answers are classes without scores"
    return NO_RULE if measure.ruled and foreseen.ruled is False else None


def _own(dataset: Dataset | None) -> tuple[bool | None, frozenset[str] | None]:
    """Whether a model's own data has labels and which targets, as far as its class tells; nothing of it is read."""
    if dataset is None:
        return None, None
    none = type(dataset).targets is Dataset.targets
    return True if dataset.classes is not None else None, frozenset() if none else None


def _named(name: str) -> tuple[bool | None, frozenset[str] | None]:
    described = _described(name)
    return (None, None) if described is None else (bool(described.labels), _kinds(described))


def _described(name: str) -> Described | None:
    """None of the user's data, which only its files describe."""
    return description_of(DATASETS.load(name, "evaluate.dataset"))


def _kinds(described: Described) -> frozenset[str]:
    """The kinds of targets that a data set has, by the measures that it says it has."""
    found = set()
    for name in described.metrics:
        try:
            target = MEASURES.told(name, _target)
        except InferBenchError:  # no measure of this installation, or one of a package that can't be used
            continue
        if target is not None:
            found.add(target)
    return frozenset(found)


def _target(measure: type[Measure]) -> str | None:
    return measure.target if issubclass(measure, TargetMeasure) else None


def _meaning(task: str | None, signature: Signature | None) -> Meaning | None:
    """None of a model without a task, which labels decide, and of a classifier whose outputs are not known."""
    if task is None:
        return None
    if signature is not None:
        return meaning_of_specs(task, signature[1])
    return None if task.endswith("classification") else meaning_of_specs(task, ())


def _scored(signature: Signature | None) -> bool | None:
    """Whether an output of fractions has several for each sample; None where a size is open."""
    if signature is None:
        return None
    shapes = [spec.shape for spec in signature[1] if spec.dtype.startswith(("float", "bfloat"))]
    if any(size > 1 for shape in shapes for size in shape):
        return True
    return None if any(size == -1 for shape in shapes for size in shape) else False
