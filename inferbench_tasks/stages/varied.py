"""Part of ``evaluate``: what each change of the pre-processing does, on the same live server, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import false_discovery_control

from inferbench_tasks.analysis.evaluations.varied import PLAIN
from inferbench_tasks.quality.base import Answered, decisions, scores_of
from inferbench_tasks.quality.judge import judge
from inferbench_tasks.quality.paired import paired

if TYPE_CHECKING:
    from inferbench_tasks.contracts.arrays import Arrays
    from inferbench_tasks.stages.asked import Asked
    from inferbench_tasks.stages.varied_samples import Varied

VARIED_FILE = "varied.parquet"

#: Asks every row of these inputs once, as the plain ones were asked: ``inputs, what it is of, for people``.
AskAll = Callable[["Arrays", str], "Asked"]


def named(step: str, to: str | float) -> str:
    """A variant's name: ``resize: nearest``."""
    return f"{step}: {to}"


def vary(
    varied: Varied,
    ask: AskAll,
    plain: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    ids: NDArray[np.int64],
    measures: Sequence[str],
    unlabelled: str,
) -> tuple[dict[str, Any], pa.Table]:
    """What the result says of it, and a row for each sample of each variant (``table_of``).

    ``measures``: those of the plain answers. ``source``: the source model's answers to the plain samples, which are
    what every variant's agreement is with.
    """
    main = "agreement_ratio" if labels is None else "top1_ratio"
    names = list(dict.fromkeys([main, *measures]))
    parts = [table_of(PLAIN, plain, source, ids, varied.plain_ms)]
    variants = []
    for at, (step, to) in enumerate(varied.changes):
        asked = ask(varied.inputs(at), named(step, to))
        parts.append(table_of(named(step, to), asked, source, ids, varied.took_ms[at]))
        variants.append(
            {"variant": named(step, to), "step": step, "to": to, "inputs_changed": varied.inputs_changed[at]}
            | compared(plain, asked, source, labels, names, unlabelled)
            | {"preprocess_ms": _times(varied.took_ms[at])}
        )
    tested = [each["against_plain"] for each in variants if "against_plain" in each]
    corrected = false_discovery_control([each["p_value"] for each in tested]) if tested else ()
    for each, p_value in zip(tested, corrected, strict=True):
        each["p_corrected"] = float(p_value)
    document = {
        "measure": main,
        "processor": varied.processor,
        "plain": judged(plain, source, labels, names, unlabelled)
        | {"preprocess_ms": _times(varied.plain_ms)},
        "variants": variants,
    }
    return document, pa.concat_tables(parts)


def judged(
    asked: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    measures: Sequence[str],
    unlabelled: str,
) -> dict[str, Any]:
    """{unanswered, failures, passes}, and ``measures``, or why these are ``withheld``."""
    found: dict[str, Any] = {
        "unanswered": asked.unanswered,
        "failures": asked.statuses,
        "passes": asked.passes,
    }
    if asked.unanswered:
        return found | {"withheld": f"{asked.unanswered} of {len(asked.answered)} samples got no answer"}
    values = judge(Answered(asked.outputs, source, labels, unlabelled=unlabelled), measures).values
    return found | {"measures": {name: quality.as_dict() for name, quality in values.items()}}


def compared(
    plain: Asked,
    asked: Asked,
    source: Arrays,
    labels: NDArray[np.int64] | None,
    measures: Sequence[str],
    unlabelled: str,
) -> dict[str, Any]:
    """``judged``, and where every sample has both answers also {answers_changed, against_plain}.

    Right is an answer that names the label, without labels the class that the source model names for the plain sample.
    ``against_plain``: ``quality.paired`` of the plain pre-processing and this one.
    """
    found = judged(asked, source, labels, measures, unlabelled)
    if asked.unanswered or plain.unanswered:
        return found
    answers, before = decisions(asked.outputs, source), decisions(plain.outputs, source)
    right = decisions(source, source) if labels is None else labels
    # An answer that names no class (-1) is never right, and agrees with nothing.
    pair = paired((before == right) & (before >= 0), (answers == right) & (answers >= 0))
    return found | {
        "answers_changed": int((answers != before).sum()),
        "against_plain": {
            "difference": pair.difference_ratio,
            "ci95": [pair.low, pair.high],
            "only_plain": pair.only_first,
            "only_variant": pair.only_second,
            "p_value": pair.p_value,
        },
    }


def table_of(
    variant: str, asked: Asked, source: Arrays, ids: NDArray[np.int64], took_ms: NDArray[np.float64]
) -> pa.Table:
    """``variant``, ``sample``, ``answer``, ``score``, ``latency_ms``, ``preprocess_ms``; null without an answer."""
    count, there = len(ids), asked.answered
    answers = scores = None
    if asked.outputs:
        answers, scores = decisions(asked.outputs, source), scores_of(asked.outputs, source)
    return pa.table(
        {
            "variant": pa.array([variant] * count),
            "sample": pa.array(ids),
            "answer": pa.nulls(count, pa.int64()) if answers is None else pa.array(answers, mask=~there),
            "score": pa.nulls(count, pa.float64())
            if scores is None
            else pa.array(scores.max(axis=1), mask=~there),
            "latency_ms": pa.array(asked.latency_ms, mask=~there),
            "preprocess_ms": pa.array(took_ms),
        }
    )


def _times(took_ms: NDArray[np.float64]) -> dict[str, float]:
    return {"median": float(np.median(took_ms)), "mean": float(took_ms.mean())}
