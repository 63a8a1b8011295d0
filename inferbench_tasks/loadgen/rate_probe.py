"""What one probe of a search says of its rate: a load counts as it would by itself, with its own certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.early_stopping import least_to_keep
from inferbench_tasks.loadgen.outcome import STEADY
from inferbench_tasks.loadgen.rate_search import LONGEST, Finding, Outcome
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES
from inferbench_tasks.submission.slo import PERCENTILES, SloSpec

#: Checks that an overloaded server fails by itself, however well the load was sent.
_BY_THE_SERVER = {"errors", "dropped", "ended_early"}
#: What gets worse with the rate: bounds on anything else (throughput, cost) hold of the result, not of each probe.
_RISING = ("mean_ms", "error_ratio", *(f"{name}_ms" for name in PERCENTILES))
_QUANTILES = {f"{name}_ms": quantile for quantile, name in NAMES.items()}


def rate_objective(slo: SloSpec) -> SloSpec:
    """The bounds that a rate keeps or breaks: those on latencies and on failed requests."""
    return SloSpec.model_validate({name: value for name, value in slo.bounds().items() if name in _RISING})


def objective_text(slo: SloSpec) -> str:
    """The bounds that a rate has to keep, in words; equal for equal ones."""
    bounds = sorted(rate_objective(slo).bounds().items(), key=lambda item: [*FIGURES].index(item[0]))
    return ", ".join(f"{name} {'>=' if FIGURES[name].higher else '<='} {bound:g}" for name, bound in bounds)


def least_requests(slo: SloSpec) -> int:
    """Without so many, no percentile that is bounded can be decided, nor that few enough requests fail."""
    floors = [FLOORS[_QUANTILES[f"{name}_ms"]] for name in slo.percentile_bounds_ms()]
    return max([*floors, least_to_keep(slo.bound("error_ratio") or 0.0)])


def judge_probe(
    rate_rps: float,
    duration_s: float,
    verdict: Verdict,
    certificate: Mapping[str, Any],
    objective: Mapping[str, Any],
) -> tuple[Finding, str]:
    """The finding, and the reason for it in words.

    ``objective``: the judgement on ``rate_objective`` (``loadgen.objective.judge``), before anything was withheld.
    ``duration_s``: as it was asked for.
    """
    leans = all(_looks_kept(name, check) for name, check in objective["checks"].items())
    broken = objective["met"] is False

    def finding(outcome: Outcome, reason: str, needed_s: float | None = None) -> tuple[Finding, str]:
        return Finding(rate_rps, duration_s, outcome, leans and not backlog, needed_s), reason

    figures = certificate["figures"]
    backlog, steady = figures.get("growing_backlog"), str(figures.get("steady_state") or STEADY)
    unstable = backlog or (None if steady == STEADY or steady.startswith("not judged") else steady)
    withheld = None if unstable else _withheld(certificate, objective)
    if not verdict.valid:
        overloaded = broken and {reason.check for reason in verdict.reasons} <= _BY_THE_SERVER
        return finding("broken" if overloaded else "unusable", str(verdict))
    if withheld:
        return finding("unusable", withheld)
    if broken:
        return finding("broken", backlog or _nearest(objective))
    if unstable:
        return finding("undecided", unstable, duration_s * LONGEST)
    if objective["met"]:
        return finding("kept", _nearest(objective))
    reasons = [check["reason"] for check in objective["checks"].values() if check.get("reason")]
    # Where no number of requests is known to decide, those over the bound may have been a few episodes: twice as long.
    needed_s = objective["needed_s"] or duration_s * 2
    return finding("undecided", reasons[0] if reasons else "too few requests to exclude chance", needed_s)


def _looks_kept(name: str, check: Mapping[str, Any]) -> bool:
    """By the share of requests over the bound where it is a percentile."""
    if name in _QUANTILES and check.get("requests"):
        return bool(check["over"] / check["requests"] <= 1 - _QUANTILES[name])
    return check["met"] is not False


def _withheld(certificate: Mapping[str, Any], objective: Mapping[str, Any]) -> str | None:
    """Why a latency that is bounded doesn't count, None where all do."""
    reasons = (certificate.get("withheld") or {}).get("e2e_latency_ms") or {}
    names = [name.removesuffix("_ms") for name in objective["checks"]]
    return next((str(reasons[name]) for name in names if name in reasons), None)


def _nearest(objective: Mapping[str, Any]) -> str:
    """How the bound that is nearest to broken, or furthest beyond, was kept."""
    texts = []
    for name, check in objective["checks"].items():
        if name in _QUANTILES and check.get("requests"):
            allowed = 1 - _QUANTILES[name]
            share = check["over"] / check["requests"]
            text = f"{share:.3%} of {check['requests']} requests were over {check['bound']:g} ms"
            texts.append((share / allowed, f"{text} (at most {allowed:.1%})"))
        elif check["value"] is not None and check["bound"]:
            texts.append(
                (check["value"] / check["bound"], f"{name} {check['value']:g} of {check['bound']:g}")
            )
        elif check["met"] is False:
            texts.append((float("inf"), f"{name} {check['value']:g} of {check['bound']:g}"))
    return max(texts, default=(0.0, "every bound was kept"))[1]
