"""Whether answers are right, asked as the load asks: what can't go with that."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.arrivals.max_rate import MaxRate
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.evaluation import EvaluateSpec
from inferbench_tasks.submission.finding import Finding
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.spans import spans_findings
from inferbench_tasks.submission.vary import vary_findings

_HERE = "evaluate"
_MODEL = ("model.kind", "model.name")


def evaluate_findings(spec: JobSpec) -> Iterator[Finding]:
    """What an evaluation can't go with."""
    yield from _bounded(spec)
    if spec.evaluate is None:
        return
    if isinstance(spec.traffic.arrivals, MaxRate):
        message = "max_rate searches for its rate; samples are asked at a given one. Give a rate, or leave evaluate out"
        yield Finding((_HERE, "load.arrivals"), message)
    if spec.processors is not None and spec.processors.side == "server" and spec.processors.after:
        message = (
            "answers are set beside the source model's own, which the server's processors take the place of; use side: "
            "client, or leave processors.after or evaluate out"
        )
        yield Finding((_HERE, "processors.after"), message)
    if spec.processors is not None and spec.processors.before and spec.evaluate.vary is not None:
        message = "changes the plain pre-processing, which processors.before takes the place of; leave one of both out"
        yield Finding(("evaluate.vary", "processors.before"), message)
    if spec.share is not None:
        message = "a model is evaluated while it has its device alone; leave share or evaluate out"
        yield Finding((_HERE, "share"), message)


def data_findings(spec: JobSpec, abilities: Abilities) -> Iterator[Finding]:
    """What is asked of the samples that they don't have; see ``submission.vary`` and ``submission.spans``."""
    if spec.evaluate is not None:
        yield from _split(spec.evaluate, abilities)
        yield from _unfit(spec, spec.evaluate, abilities)
        yield from _processed(spec, spec.evaluate, abilities)
        yield from spans_findings(spec.evaluate.spans, spec.evaluate.dataset, abilities)
    if spec.evaluate is not None and spec.evaluate.vary is not None:
        yield from vary_findings(spec.evaluate.vary, spec.evaluate.dataset, abilities)


def _split(evaluate: EvaluateSpec, abilities: Abilities) -> Iterator[Finding]:
    """A split that a data set of ours doesn't have; of the user's only the files tell."""
    dataset, split = evaluate.dataset, evaluate.split
    if dataset is None or split is None or dataset not in abilities.datasets:
        return
    if message := abilities.unknown_split(dataset, split):
        yield Finding(("evaluate.split", "evaluate.dataset"), message)


def _unfit(spec: JobSpec, evaluate: EvaluateSpec, abilities: Abilities) -> Iterator[Finding]:
    """Labels that are no classes of the model, and measures that can't be had of it on that data, as far as both are
    described: what else doesn't fit is said once the model is made, before its server starts."""
    dataset, measures = evaluate.dataset, evaluate.measures
    if dataset is not None and dataset not in abilities.datasets:
        return
    if dataset is not None and (message := abilities.unfit_classes(spec.model, dataset)):
        yield Finding(("evaluate.dataset", *_MODEL), message)
        return
    if measures is not None:
        asked, field = measures, "evaluate.measures"
    else:
        bounds = spec.slo.bounds() if spec.slo else {}
        asked, field = tuple(name for name in bounds if FIGURES[name].evaluated), ""
    known = [name for name in asked if name in abilities.measures]
    unfit = abilities.unfit_measures(spec.model, dataset, known) if known else {}
    for name, message in unfit.items():
        yield Finding((field or f"slo.{name}", "evaluate.dataset", *_MODEL), message)


def _processed(spec: JobSpec, evaluate: EvaluateSpec, abilities: Abilities) -> Iterator[Finding]:
    """Processors that the data set's samples can't go through, or whose answers nothing could be set against."""
    if spec.processors is None or evaluate.dataset is None or evaluate.dataset not in abilities.datasets:
        return
    form = abilities.dataset_form(evaluate.dataset)
    if spec.processors.before and form in ("grey", "questions"):
        message = (
            f"samples of {evaluate.dataset} are {form}, and no files or texts to begin with; leave it out"
        )
        yield Finding(("processors.before", "evaluate.dataset"), message)
    if spec.processors.after and form == "questions":
        message = "evaluate.spans reads the answers out of the model's own outputs; leave it out"
        yield Finding(("processors.after", "evaluate.dataset"), message)
    whole = any(s.kind == "image" and s.settings.get("squeezed") is True for s in spec.processors.before)
    if spec.processors.before and form == "scenes" and not whole:
        message = f"boxes of {evaluate.dataset} are of whole pictures: take image with squeezed: true, or leave it out"
        yield Finding(("processors.before", "evaluate.dataset"), message)


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
