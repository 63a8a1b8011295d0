"""Part of ``evaluate``: what is said of answers, and why they would not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers_digest import answers_digest
from inferbench_tasks.contracts.arrays import Arrays, blocks
from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import InputError
from inferbench_tasks.quality.base import Answered, decisions, ties
from inferbench_tasks.quality.confusion import confusion
from inferbench_tasks.quality.judge import judge as measured

if TYPE_CHECKING:
    from inferbench_tasks.contracts.answers import Meaning
    from inferbench_tasks.processors.pipeline import Pipeline
    from inferbench_tasks.stages.asked import Asked

#: From the outputs to a text for each sample, or why there is none (``quality.spans``).
Reader: TypeAlias = Callable[[Arrays], NDArray[Any] | str]
#: Why there is no accuracy where nothing else forbids one.
UNLABELLED = "the data set has no labels"
#: So many samples are listed by their ids; all of them stand in the file of answers.
LISTED = 50
#: A matrix of more classes is not stored; which classes were taken for which stands in the file of answers.
MOST_CLASSES = 100


def judge(
    under_load: Asked,
    alone: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    tolerance_ratio: float,
    *,
    exact: bool,
    meaning: Meaning = "classes",
    unlabelled: str = UNLABELLED,
    targets: Arrays | None = None,
    untargeted: str = "",
    measures: Sequence[str] = (),
    loaded: bool = True,
    reader: Reader | None = None,
    after: Pipeline | None = None,
) -> tuple[dict[str, Any], tuple[Reason, ...]]:
    """What is said of the answers, and why they would not count.

    Figures are over all samples or there are none: those without an answer can't be left out without a word.
    ``exact``: whether the served model computes as precisely as its source, so that its answers must be the source's
    within the tolerance. ``meaning``: what the answers are. ``unlabelled``: why there are no labels.
    ``loaded``: whether there is a load; without one the samples were asked one by one, twice.
    ``targets``, ``untargeted``: see ``Answered``. ``measures``: their names, all that fit without any.
    ``reader``: what makes texts of the outputs, where these are none themselves. ``after``: the submission's
    processors, whose results are set against targets.
    """
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
                asked.outputs,
                source,
                labels,
                meaning,
                unlabelled,
                targets or {},
                untargeted,
                texts,
                processed,
            )
            known[key] = _figures(answered, measures)
        part |= known[key]
    # Under a load a request may fail for the load's sake; one user who asks one sample has to be answered each time.
    # (Without a load both passes are such, and ``unloaded`` counts them.)
    reasons = [_without_answer(alone, len(ids))] if loaded and alone.unanswered else []
    both = under_load.answered & alone.answered
    differing = _differing(under_load.outputs, alone.outputs, source, both)
    document["differing"] = _listed(differing, ids, both, tolerance_ratio)
    if beyond := document["differing"]["beyond_tolerance"]:
        how, than = ("under load", "one by one") if loaded else ("one by one", "when they were asked again")
        reasons.append(
            _reason("differing", beyond, int(both.sum()), how, than, document["differing"]["samples"])
        )
    from_source = _differing(under_load.outputs, source, source, under_load.answered)
    document["from_source"] = _listed(from_source, ids, under_load.answered, tolerance_ratio)
    if exact and (beyond := document["from_source"]["beyond_tolerance"]):
        count = int(under_load.answered.sum())
        how, samples = "under load" if loaded else "one by one", document["from_source"]["samples"]
        reasons.append(_reason("from_source", beyond, count, how, "by the source model", samples))
    if labels is not None and meaning == "classes" and not under_load.unanswered:
        matrix = confusion(labels, decisions(under_load.outputs, source))
        document["classes"] = matrix.by_class()[:MOST_CLASSES]
        if len(matrix.classes) <= MOST_CLASSES:
            document["confusion"] = {"classes": list(matrix.classes), "counts": matrix.counts.tolist()}
    return document, tuple(reasons)


def _figures(answered: Answered, measures: Sequence[str]) -> dict[str, Any]:
    """{tied, measures, left_out}; ``tied`` of classes only."""
    judged = measured(answered, measures)
    tied = {"tied": ties(answered.outputs, answered.source)} if answered.meaning == "classes" else {}
    values = {name: quality.as_dict() for name, quality in judged.values.items()}
    return {**tied, "measures": values, "left_out": judged.left_out}


def processed_by(after: Pipeline | None, outputs: Arrays) -> Arrays | str | None:
    """What the processors make of a server's answers; why they can't; None without any."""
    if after is None:
        return None
    try:
        return after.each_after(outputs)
    except InputError as error:
        return f"the processors after the model can't read the answers: {error}"


def _differing(one: Arrays, other: Arrays, like: Arrays, both: NDArray[np.bool_]) -> NDArray[np.float64]:
    """max|one - other| of each sample by the largest |value| of all samples, over all outputs; inf for other texts,
    classes, or where one alone is no finite number; NaN of samples that do not have both answers.
    """
    if not both.any():  # then outputs may have no names at all
        return np.full(len(both), np.nan)
    worst = np.zeros(len(both))
    names = [name for name in like if name in one and name in other]
    pairs = [(name, name) for name in names] or list(zip(one, other, strict=True))
    for mine, theirs in pairs:
        a, b = one[mine].reshape(len(both), -1), other[theirs].reshape(len(both), -1)
        if a.shape != b.shape:
            return np.where(both, np.inf, np.nan)
        if a.dtype.kind == "f" and b.dtype.kind == "f":
            scale = max((_largest(a[rows], b[rows], both[rows]) for rows in blocks(b)), default=0.0) or 1.0
            apart = [_apart(a[rows], b[rows], scale) for rows in blocks(b)]
            worst = np.maximum(worst, np.concatenate(apart))
        else:
            worst = np.where((a == b).all(axis=1), worst, np.inf)
    worst[~both] = np.nan
    return worst


def _largest(a: NDArray[Any], b: NDArray[Any], both: NDArray[np.bool_]) -> float:
    """The largest |b| where both are finite, of the samples with both answers."""
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(np.where(finite, b.astype(np.float64), 0.0)[both]).max(initial=0.0))


def _apart(a: NDArray[Any], b: NDArray[Any], scale: float) -> NDArray[np.float64]:
    """Of each row the largest |a - b| / scale; inf where only one is finite or they are infinite otherwise."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        apart = np.where(np.isfinite(x) & np.isfinite(y), np.abs(x - y) / scale, np.where(same, 0, np.inf))
    worst: NDArray[np.float64] = apart.max(axis=1, initial=0.0)
    return worst


def _listed(
    differing: NDArray[np.float64], ids: NDArray[np.int64], both: NDArray[np.bool_], tolerance_ratio: float
) -> dict[str, Any]:
    """How many samples differ, how many beyond the tolerance, and which of those, the largest difference first."""
    known = np.where(both, differing, 0.0)
    beyond = known > tolerance_ratio
    order = np.argsort(-known, kind="stable")[: min(LISTED, int(beyond.sum()))]
    largest = float(known.max(initial=0.0))
    return {
        "compared": int(both.sum()),
        "beyond_tolerance": int(beyond.sum()),
        "largest_ratio": largest if np.isfinite(largest) else None,
        "samples": [int(ids[at]) for at in order],
    }


def _without_answer(alone: Asked, of: int) -> Reason:
    kinds = ", ".join(f"{count} {kind}" for kind, count in alone.statuses.items())
    text = (
        f"{alone.unanswered} of {of} samples got no answer one by one{f' ({kinds})' if kinds else ''}, which those "
        "under load would be set beside"
    )
    return Reason(check="evaluate.unanswered", figure=alone.unanswered, bound=0, unit="samples", text=text)


def _reason(check: str, count: int, of: int, how: str, than: str, samples: list[int]) -> Reason:
    shown = ", ".join(str(sample) for sample in samples[:5]) + (", ..." if count > 5 else "")
    text = f"{count} of {of} samples are answered otherwise {how} than {than}: {shown}"
    return Reason(check=f"evaluate.{check}", figure=count, bound=0, unit="samples", text=text)
