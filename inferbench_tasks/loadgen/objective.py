"""Whether a run kept its objective: met, missed, or undecided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.early_stopping import decide
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES, hidden_by_failures
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec

#: What ``met`` is called.
WORDS = {True: "met", False: "missed", None: "undecided"}
_QUANTILES = {f"{name}_ms": quantile for quantile, name in NAMES.items()}


def judge(
    slo: SloSpec | None,
    summary: Mapping[str, Any],
    window: Window | None,
    unanswered_ratio: float | None = None,
) -> dict[str, Any] | None:
    """{met, verdict, checks, needed_requests, needed_s}: each bounded figure as {value, bound, met}; None without one.

    ``met`` is None where it is undecided: nothing measured the figure, a percentile or the share of failed requests has
    too few requests to exclude chance (``early_stopping``), or the interval of a figure that has one holds its bound.
    The checks of percentiles and failures also have ``over`` of ``requests``, ``needed_requests`` and ``needed_s``,
    which would decide them, and the ``reason`` where none would; those of the whole are the greatest. ``window``: None
    of a run without a load, of which only measures of answers can be bounded, and that no sample stays unanswered
    (``unanswered_ratio``, None where none was asked). Of no check at all nothing is met.
    """
    if slo is None:
        return None
    checks = {
        name: _check(name, bound, summary, window)
        for name, bound in slo.bounds().items()
        if window is not None or FIGURES[name].evaluated
    }
    if window is None and (bound := slo.bounds().get("error_ratio")) is not None:
        checks["error_ratio"] = _unanswered(bound, unanswered_ratio)
    if slo.min_good_ratio is not None and window is not None:
        checks["good_ratio"] = _good(slo.min_good_ratio, summary.get("tokens") or {}, window)
    verdicts = [check["met"] for check in checks.values()]
    met = False if False in verdicts else None if None in verdicts or not verdicts else True
    needs: list[int | None] = [c.get("needed_requests") for c in checks.values() if c["met"] is None]
    known = [requests for requests in needs if requests is not None]
    needed = max(known) if met is None and known and len(known) == len(needs) else None
    return {
        "met": met,
        "verdict": WORDS[met],
        "checks": checks,
        "needed_requests": needed,
        "needed_s": _seconds(needed, window),
    }


def _check(name: str, bound: float, summary: Mapping[str, Any], window: Window | None) -> dict[str, Any]:
    figure = FIGURES[name]
    value = figure.stored(summary)
    if name in _QUANTILES and window is not None:
        return {"value": value, "bound": bound, **_percentile(name, value, bound, summary, window)}
    # An accuracy through the server is bounded as it is over the samples that the requests carry.
    if figure.interval and not figure.right_of and value is not None:
        return {"value": value, "bound": bound, **_by_interval(figure, figure.interval_in(summary), bound)}
    if name == "error_ratio" and bound > 0 and window is not None:
        return {"value": value, "bound": bound, **_failures(value, bound, window)}
    met = None if value is None else value >= bound if figure.higher else value <= bound
    return {"value": value, "bound": bound, "met": met}


def _unanswered(bound: float, value: float | None) -> dict[str, Any]:
    """The requests of a run without a load are those of the evaluation."""
    if value is None:
        return {"value": None, "bound": bound, "met": None, "reason": "no sample was asked"}
    return {"value": value, "bound": bound, "met": value <= bound}


def _by_interval(figure: Figure, interval: tuple[float, float] | None, bound: float) -> dict[str, Any]:
    """A figure with an interval of its own (the mean latency, CPU time): on a side of its bound only if that is."""
    if interval is None:
        return {"met": None, "reason": "its 95% interval is not known"}
    low, high = interval
    if figure.higher:
        met = True if low >= bound else False if high < bound else None
    else:
        met = True if high <= bound else False if low > bound else None
    text = f"its 95% interval, {low:.4g} to {high:.4g} {figure.unit}, holds the bound"
    return {"met": met, "reason": text if met is None else None}


def _failures(value: float | None, bound: float, window: Window) -> dict[str, Any]:
    """The exact binomial bounds of percentiles (Clopper and Pearson). Without any failure allowed it is as it is."""
    decision = decide(~window.ok[window.measured], 1 - bound)
    needed = decision.needed_requests
    return {
        "met": None if value is None else decision.met,
        "over": decision.over,
        "requests": decision.requests,
        "needed_requests": needed,
        "needed_s": _seconds(needed, window),
        "reason": decision.reason,
    }


def _good(bound: float, tokens: Mapping[str, Any], window: Window) -> dict[str, Any]:
    """The share of good answers of all that were due: decided where it is known which were (``token_summary``)."""
    value, decision = tokens.get("good_ratio"), tokens.get("good_decision")
    if value is None or decision is None:
        reason = (tokens.get("reasons") or {}).get("good_ratio", "which answers are good is not known")
        return {"value": None, "bound": bound, "met": None, "reason": reason}
    needed_s = _seconds(decision["needed_requests"], window)
    return {"value": value, "bound": bound, **decision, "needed_s": needed_s}


def _percentile(
    name: str, value: float | None, bound_ms: float, summary: Mapping[str, Any], window: Window
) -> dict[str, Any]:
    """A request that failed was not answered within the bound."""
    quantile = _QUANTILES[name]
    over = (~window.ok | (window.done_ns - window.intended_ns > bound_ms * 1e6))[window.measured]
    decision = decide(over, quantile)
    met, needed, reason = decision.met, decision.needed_requests, decision.reason
    withheld = ((summary.get("e2e_latency_ms") or {}).get("withheld") or {}).get(NAMES[quantile])
    if withheld and not (met is False and hidden_by_failures(quantile, window.failed_ratio)):
        met, needed, reason = None, None, withheld
    elif value is None and not withheld and met is not False:
        # Too few answers for the percentile itself: what a few hundred kept may be chance. What so many broke is not.
        met, needed = None, max(needed or 0, FLOORS[quantile])
    return {
        "met": met,
        "over": decision.over,
        "requests": decision.requests,
        "needed_requests": needed,
        "needed_s": _seconds(needed, window),
        "reason": reason,
    }


def _seconds(requests: int | None, window: Window | None) -> float | None:
    """How long so many requests take at the rate of the window."""
    if window is None:
        return None
    measured = int(window.measured.sum())
    return requests / measured * window.duration_s if requests is not None and measured else None
