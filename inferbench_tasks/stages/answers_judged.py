"""Part of ``evaluate``: what is said of answers, and why they would not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers_digest import answers_digest
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered, decisions, ties
from inferbench_tasks.quality.confusion import confusion
from inferbench_tasks.quality.judge import judge as measured
from inferbench_tasks.stages.answers_apart import Apart, apart_ratio, beyond, floats_apart

if TYPE_CHECKING:
    from inferbench_tasks.contracts.answers import Meaning
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.quality.named_classes import ClassReader
    from inferbench_tasks.stages.asked import Asked

#: From the outputs to a text for each sample, or why there is none (``quality.spans``).
Reader: TypeAlias = Callable[[Arrays], NDArray[Any] | str]
#: Why there is no accuracy where nothing else forbids one.
UNLABELLED = "the data set has no labels"
#: A matrix of more classes is not stored; which classes were taken for which stands in the file of answers.
MOST_CLASSES = 100
#: Recall and precision are stored of so many classes: of ImageNet's all; of others the rest stands in that file, too.
MOST_BY_CLASS = 1_000


def judge(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    tolerance_ratio: float,
    *,
    apart: Apart,
    exact: bool,
    exact_labels: bool = True,
    meaning: Meaning = "classes",
    unlabelled: str = UNLABELLED,
    targets: Arrays | None = None,
    untargeted: str = "",
    measures: Sequence[str] = (),
    loaded: bool = True,
    reader: Reader | None = None,
    after: Pipeline | None = None,
    classes: ClassReader | None = None,
) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What is said of the answers, and why they would not count.

    Figures are over all samples or there are none: those without an answer can't be left out without a word.
    ``tolerance_ratio``: the conversion's, for answers beside the source model's. ``apart``: the two passes beside each
    other; a sample whose class alone differs, by less than the noise, is listed and is no reason. Of an output that
    is the class's number any other number is beyond every bound.
    ``exact``: whether nothing is lost on the way from the source model, so that its answers must be the source's
    within the tolerance. ``exact_labels``: whether that is asked of whole numbers and texts, too (``stages.exact``);
    else of floats alone, which are compared by themselves where rows of them follow the same numbers.
    ``meaning``: what the answers are. ``unlabelled``: why there are no labels.
    ``loaded``: whether there is a load; without one the samples were asked one by one, twice.
    ``targets``, ``untargeted``: see ``Answered``. ``measures``: their names, all that fit without any.
    ``reader``: what makes texts of the outputs, where these are none themselves. ``after``: the submission's
    processors, whose results are set against targets. ``classes``: what makes classes of the data set of a model's own.
    """
    named: Callable[[Arrays], Arrays] = classes or (lambda outputs: outputs)
    document: dict[str, Any] = {
        "samples": len(ids),
        "answers_are": meaning,
        "under_load": {
            "unanswered": under_load.unanswered,
            "failures": under_load.statuses,
        },
        "one_by_one": {"unanswered": alone.unanswered, "failures": alone.statuses},
        "passes": under_load.passes,
        "tolerance_ratio": tolerance_ratio,
    }
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for asked, part in ((under_load, document["under_load"]), (alone, document["one_by_one"])):
        if asked.unanswered:
            part["withheld"] = f"{asked.unanswered} of {len(ids)} samples got no answer"
            continue
        part["answers_digest"] = digest = answers_digest(asked.outputs)
        # The same answers have the same figures: they are worked out once.
        if (key := (digest, *asked.outputs)) not in known:
            texts = reader(asked.outputs) if reader is not None else None
            processed = processed_by(after, asked.outputs)
            answered = Answered(
                named(asked.outputs),
                named(source),
                labels,
                meaning,
                unlabelled,
                targets or {},
                untargeted,
                texts,
                processed,
            )
            known[key] = _figures(answered, measures, ties(asked.outputs, source))
        part |= known[key]
    # Under a load a request may fail for the load's sake; one user who asks one sample has to be answered each time.
    # (Without a load both passes are such, and ``unloaded`` counts them.)
    reasons = [_without_answer(alone, len(ids))] if loaded and alone.unanswered else []
    document["differing"] = differing = apart.document(ids)
    if differing["beyond_tolerance"]:
        how, than = ("under load", "one by one") if loaded else ("one by one", "when they were asked again")
        reasons.append(_reason("differing", differing, how, than, apart.bound_ratio))
    held: dict[str, Any] | None
    document["from_source"] = held = _from_source(under_load, source, tolerance_ratio, ids)
    kinds = {answers.dtype.kind == "f" for answers in source.values()}
    if not exact_labels and False in kinds:
        held = _floats_from_source(under_load, source, tolerance_ratio, ids) if True in kinds else None
        document["from_source"] |= {"floats": held} if held is not None else {}
    if exact and held is not None and held["beyond_tolerance"]:
        how = "under load" if loaded else "one by one"
        reasons.append(_reason("from_source", held, how, "by the source model", tolerance_ratio))
    if labels is not None and meaning == "classes" and not under_load.unanswered:
        matrix = confusion(labels, decisions(named(under_load.outputs), named(source)))
        document["classes"] = matrix.by_class()[:MOST_BY_CLASS]
        document["classes_total"] = len(matrix.classes)
        if len(matrix.classes) <= MOST_CLASSES:
            document["confusion"] = {"classes": list(matrix.classes), "counts": matrix.counts.tolist()}
    return document, tuple(reasons)


def _from_source(
    asked: Asked, source: Arrays, tolerance_ratio: float, ids: NDArray[np.int64]
) -> dict[str, Any]:
    ratio = apart_ratio(asked.outputs, source, source, asked.answered)
    return beyond(ratio, asked.answered, tolerance_ratio, ids)


def _floats_from_source(
    asked: Asked, source: Arrays, tolerance_ratio: float, ids: NDArray[np.int64]
) -> dict[str, Any]:
    """The same of floats, and ``left_out``: of how many samples some are not compared, see ``floats_apart``."""
    ratio, held, left_out = floats_apart(asked.outputs, source, source, asked.answered)
    return beyond(ratio, held, tolerance_ratio, ids) | {"left_out": int(left_out.sum())}


def _figures(answered: Answered, measures: Sequence[str], tied: int) -> dict[str, Any]:
    """{tied, measures, left_out}; ``tied`` of classes only."""
    judged = measured(answered, measures)
    values = {name: quality.as_dict() for name, quality in judged.values.items()}
    return {
        **({"tied": tied} if answered.meaning == "classes" else {}),
        "measures": values,
        "left_out": judged.left_out,
    }


def processed_by(after: Pipeline | None, outputs: Arrays) -> Arrays | str | None:
    """What the processors make of a server's answers; why they can't; None without any."""
    if after is None:
        return None
    try:
        return after.each_after(outputs)
    except InputError as error:
        return f"the processors after the model can't read the answers: {error}"


def _without_answer(alone: Asked, of: int) -> Reason:
    kinds = ", ".join(f"{count} {kind}" for kind, count in alone.statuses.items())
    text = (
        f"{alone.unanswered} of {of} samples got no answer one by one{f' ({kinds})' if kinds else ''}, which those "
        "under load would be set beside"
    )
    return Reason(check="evaluate.unanswered", figure=alone.unanswered, bound=0, unit="samples", text=text)


def _reason(check: str, found: dict[str, Any], how: str, than: str, bound_ratio: float) -> Reason:
    count, largest = found["beyond_tolerance"], found["largest_ratio"]
    shown = ", ".join(str(sample) for sample in found["samples"][: min(count, 5)]) + (
        ", ..." if count > 5 else ""
    )
    if largest is None:
        far = "with other texts, class numbers or shapes, or without a finite number"
    else:
        far = f"by up to {largest:.2g} of the largest value, {bound_ratio:.2g} is allowed"
    compared = (
        f"{count} of {found['compared']} samples are answered otherwise {how} than {than}, beyond the bound"
    )
    text = f"{compared} ({far}): {shown}"
    return Reason(check=f"evaluate.{check}", figure=count, bound=0, unit="samples", text=text)
