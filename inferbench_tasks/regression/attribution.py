"""Which stage of a request changed: pre-processing, transmit, queue, inference, post-processing, or the cold start.

Each stage's mean time is compared between the sides over the same sessions as the change itself. The stage named is
the one that grew (or shrank) most in the change's direction, if chance does not explain it. A queue is a
consequence where a part of the work got slower too: at the same rate a slower server always queues more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.pipelines.serving_nights import PARTS, WORK
from inferbench_tasks.regression.ratio import mann_whitney

COLD_START = "cold_start"
#: A part that explains less of the change is not worth naming.
WORTH_NAMING_RATIO = 0.2
ALPHA = 0.01


@dataclass(frozen=True)
class Part:
    """``change_ms``: candidate - baseline, of the medians over runs; ``share_ratio``: of the change of all parts."""

    name: str
    baseline_ms: float
    candidate_ms: float
    change_ms: float
    share_ratio: float
    p_value: float


@dataclass(frozen=True)
class Attribution:
    """``stage``: the one that caused it, None if none stands out; ``follows``: stages that only follow from it."""

    stage: str | None
    follows: tuple[str, ...]
    parts: tuple[Part, ...]


def attribute(
    baseline: Sequence[Mapping[str, float]],
    candidate: Sequence[Mapping[str, float]],
    *,
    slower: bool,
    parts: Sequence[str] = PARTS,
    work: Sequence[str] = WORK,
) -> Attribution:
    """Compare the parts of two sides' runs (part -> mean ms, one mapping per run), those of a request by default.

    ``slower`` is the direction of the change that is to be explained; what is ``work`` goes before what follows.
    """
    sign = 1.0 if slower else -1.0
    raw = []
    for name in parts:
        before = [run[name] for run in baseline if run.get(name) is not None]
        after = [run[name] for run in candidate if run.get(name) is not None]
        if before and after:
            raw.append((name, float(np.median(before)), float(np.median(after)), mann_whitney(before, after)))
    total = sum(max(0.0, sign * (after - before)) for _, before, after, _ in raw)
    rows = tuple(
        Part(name, b, a, a - b, max(0.0, sign * (a - b)) / total if total else 0.0, p)
        for name, b, a, p in raw
    )
    guilty = [p for p in rows if p.share_ratio >= WORTH_NAMING_RATIO and p.p_value <= ALPHA]
    causes = [p for p in guilty if p.name in work] or guilty
    if not causes:
        return Attribution(None, (), rows)
    cause = max(causes, key=lambda p: p.share_ratio)
    return Attribution(cause.name, tuple(p.name for p in guilty if p is not cause), rows)
