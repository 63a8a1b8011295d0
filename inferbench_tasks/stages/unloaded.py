"""Part of ``collect``: what a job without a load comes to. It has no latencies, and no certificate of a stimulus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.perfdb.offered import NO_LOAD
from inferbench_tasks.submission.schema import JobSpec

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.documents import ResultDocument, Summary
    from inferbench_tasks.stages.evaluate import Output as Evaluated
    from inferbench_tasks.stages.serve import Output as Served
    from inferbench_tasks.stages.trace import Output as Traced
    from inferbench_tasks.submission.slo import SloSpec

#: What such a result says in place of a load: ``perfdb.offered`` tells it from all others.
LOAD: dict[str, Any] = {"arrivals": {"kind": NO_LOAD}}


def figures(served: Served, evaluated: Evaluated | None, slo: SloSpec | None) -> Summary:
    """The cold start and the measures of the answers, with the objective on those."""
    from inferbench_tasks.loadgen import objective
    from inferbench_tasks.perfdb.documents import Summary

    unanswered = None
    summary: dict[str, Any] = {"cold_start_ms": {**served.cold_start.model_dump(), "steady_ms": None}}
    if evaluated:
        summary["quality"] = evaluated.document["under_load"].get("measures", {})
        unanswered = _unanswered(evaluated) / evaluated.document["samples"]
    summary["slo"] = objective.judge(slo, summary, None, unanswered)
    return Summary.model_validate(summary)


def verdict(evaluated: Evaluated | None, traced: Traced | None) -> Verdict:
    """By the answers. A trace that failed leaves a loaded run alone; of a job that asks for nothing else it is all."""
    problem = traced.document.get("problem") if traced else None
    if problem and evaluated is None:
        return Verdict.failed("trace", str(problem).splitlines()[0])
    return Verdict.judged([*_reasons(evaluated), *evaluated.reasons] if evaluated else [])


def _unanswered(evaluated: Evaluated) -> int:
    """Samples without an answer in the pass that has more of them: both are one by one."""
    passes = (evaluated.document["under_load"], evaluated.document["one_by_one"])
    return max(int(each["unanswered"]) for each in passes)


def _reasons(evaluated: Evaluated) -> list[Reason]:
    """Under a load failed requests are a figure of their own, and withhold the measures; here nothing else is left."""
    if not (count := _unanswered(evaluated)):
        return []
    samples = evaluated.document["samples"]
    kinds = evaluated.document["under_load"]["failures"] or evaluated.document["one_by_one"]["failures"]
    what = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    text = f"{count} of {samples} samples got no answer{f' ({what})' if what else ''}"
    return [Reason(check="evaluate.unanswered", figure=count, bound=0, unit="samples", text=text)]


def document_of(job: JobSpec) -> dict[str, Any]:
    """In place of a load: how the requests went out."""
    return {**LOAD, "protocol": job.traffic.protocol, "batch_size": 1, "seed": job.traffic.seed}


def has_figures(result: ResultDocument) -> bool:
    """Whether a result is of a run that measured something, and not of one that was lost on its way."""
    return result.samples is not None or bool({"evaluation", "trace"} & result.extensions.keys())
