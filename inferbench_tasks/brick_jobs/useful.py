"""Which bricks a device lacks, the most useful first: how much of the predicted times of the models they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferbench_tasks.brick_jobs.cutting import BrickWork
from inferbench_tasks.brick_jobs.documents import Shapes
from inferbench_tasks.brick_jobs.filling import measuring_s, run_s
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.results import Result

#: A model as it was cut: its name, batch size, granularity and the sizes of its free inputs.
Cut = tuple[str, int, str, Shapes]


@dataclass
class Lacking:
    """A brick without a time that may be used. ``use``: the sum, over all models, of its share of the model's predicted
    time; ``measuring_s``: a guess of what timing it takes; ``models``: where it stands."""

    identity: str
    use: float = 0.0
    measuring_s: float = 0.0
    models: set[Cut] = field(default_factory=set)


def lacking(
    cuts: Iterable[Mapping[str, Any]], usable: set[str], known: Mapping[str, Result], method: Method
) -> list[Lacking]:
    """The most useful first. ``cuts``: documents of ``decompositions``; ``usable``: identities with a time that counts,
    ``known``: any times that there are, which say what a brick may take; else its work does."""
    found: dict[str, Lacking] = {}
    for cut in cuts:
        work = {one["identity"]: BrickWork.model_validate(one) for one in cut.get("work") or ()}
        counts = Counter(cut["parts"])
        seconds = {part: _seconds(part, known, work) for part in counts}
        total = sum(seconds[part] * count for part, count in counts.items())
        for part, count in counts.items():
            if part in usable:
                continue
            one = found.setdefault(part, Lacking(part))
            one.use += seconds[part] * count / total
            one.measuring_s = measuring_s(seconds[part], method, whole=False)
            one.models.add((cut["model"], cut["batch_size"], cut["granularity"], cut.get("shapes", ())))
    return sorted(found.values(), key=lambda one: (-one.use, one.identity))


def within(ranked: Sequence[Lacking], budget_s: float) -> list[Lacking]:
    """As many of the most useful as fit into the budget; one that does not is passed over."""
    chosen, left = [], budget_s
    for one in ranked:
        if one.measuring_s <= left:
            chosen.append(one)
            left -= one.measuring_s
    return chosen


def _seconds(identity: str, known: Mapping[str, Result], work: Mapping[str, BrickWork]) -> float:
    if identity in known:
        return float(np.mean(known[identity].rounds_ns["warm"])) / 1e9
    one = work.get(identity)
    return run_s(one.flops, one.moved_bytes) if one else run_s(0, 0)
