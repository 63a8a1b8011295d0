"""Whether answers are right, asked as the load asks: what can't go with that."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.vary import vary_findings

_HERE = "evaluate"


def evaluate_findings(spec: JobSpec) -> Iterator[Finding]:
    """What an evaluation can't go with."""
    yield from _bounded(spec)
    if spec.evaluate is None:
        return
    if isinstance(spec.traffic.arrivals, MaxRate):
        message = "max_rate searches for its rate; samples are asked at a given one. Give a rate, or leave evaluate out"
        yield Finding((_HERE, "load.arrivals"), message)
    if spec.traffic.engine != "inferbench":
        message = "answers of MLPerf LoadGen's requests are not kept yet; use load.engine: inferbench"
        yield Finding((_HERE, "load.engine"), message)
    if spec.processors is not None:
        message = "answers are judged as tensors of the model; leave processors or evaluate out"
        yield Finding((_HERE, "processors"), message)
    if spec.share is not None:
        message = "a model is evaluated while it has its device alone; leave share or evaluate out"
        yield Finding((_HERE, "share"), message)


def varied_findings(spec: JobSpec, abilities: Abilities) -> Iterator[Finding]:
    """What of the pre-processing can't be varied; see ``submission.vary``."""
    if spec.evaluate is not None and spec.evaluate.vary is not None:
        yield from vary_findings(spec.evaluate.vary, spec.evaluate.dataset, abilities)


def _bounded(spec: JobSpec) -> Iterator[Finding]:
    """Bounds on measures that this submission's runs don't have."""
    for name in spec.slo.bounds() if spec.slo else ():
        if not FIGURES[name].evaluated:
            continue
        if spec.evaluate is None:
            message = f"{name} is a measure of evaluate, which is not asked for; add `evaluate: {{}}`, or bound another"
            yield Finding((f"slo.{name}", _HERE), message)
        elif spec.evaluate.measures is not None and name not in spec.evaluate.measures:
            message = f"is not among evaluate.measures ({', '.join(spec.evaluate.measures)}); add it there"
            yield Finding((f"slo.{name}", "evaluate.measures"), message)
