"""Evaluated runs by hand: of twenty samples of two classes, answered as is said."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.perfdb.builders import result

SAMPLES = 20
LABELS = [at % 2 for at in range(SAMPLES)]


def answers(wrong: set[int], **columns: Any) -> pa.Table:
    """What ``stages.evaluate`` writes: these samples named the other class, the source model is always right."""
    given = [(label + (at in wrong)) % 2 for at, label in enumerate(LABELS)]
    return pa.table(
        {
            "sample": list(range(SAMPLES)),
            "label": LABELS,
            "answer": given,
            "score": [0.5 + at / 100 for at in range(SAMPLES)],
            "answer_one_by_one": given,
            "answer_source": LABELS,
            "latency_ms": [1.0] * SAMPLES,
        }
        | columns
    )


def macro_f1(wrong: set[int]) -> float:
    """By its definition, over the two classes."""
    given = [(label + (at in wrong)) % 2 for at, label in enumerate(LABELS)]
    values = []
    for named in (0, 1):
        pairs = list(zip(LABELS, given, strict=True))
        right = sum(label == answer == named for label, answer in pairs)
        one_of_both = sum((label == named) != (answer == named) for label, answer in pairs)
        values.append(2 * right / (2 * right + one_of_both))
    return sum(values) / 2


def evaluated(run_id: str, wrong: set[int], samples_digest: str = "aa" * 32, **more: Any) -> ResultDocument:
    """The result of such a run; the file of answers is not in it."""
    right = 1 - len(wrong) / SAMPLES
    measures = {
        "top1_ratio": {"value": right, "ci95": [right - 0.1, min(1.0, right + 0.1)]},
        "agreement_ratio": {"value": right, "ci95": None},
        "macro_f1": {"value": macro_f1(wrong), "ci95": None},
        "auc": {"value": 0.9, "ci95": None},
    }
    evaluation = {
        "dataset": "coins",
        "samples": SAMPLES,
        "samples_digest": samples_digest,
        "scenario": "poisson",
        "answers_are": "classes",
        "under_load": {"unanswered": 0, "measures": measures},
        "one_by_one": {"unanswered": 0, "measures": measures},
        "differing": {"compared": SAMPLES, "beyond_tolerance": 0, "samples": []},
    }
    more = {
        "extensions": {"evaluation": evaluation | more.pop("evaluation", {})},
        "summary": {"quality": measures},
    } | more
    return result(run_id, **more)
