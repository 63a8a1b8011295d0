"""Which of the runs that are acceptable under one load to use: by throughput, then CPU, then latency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.report.advice import Advice
from inferbench_tasks.analysis.report.cpu_checks import differ, doubt
from inferbench_tasks.analysis.report.distinguish import (
    figure_of,
    free_choice,
    lowest,
    settling,
    surely_lower,
    with_interval,
)
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.kept import listing
from inferbench_tasks.analysis.report.loads import lengths_of, same_but_for_length
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: So many loads are named.
NAMED = 12
THROUGHPUT, CPU, MAX_RATE = "throughput_samples_per_s", "cpu_ms_per_sample", "max_rate_samples_per_s"


def choose(views: Sequence[RunView], judge: JudgedRuns) -> Advice:
    """The best of runs that are all acceptable: by throughput in samples, then CPU per sample, then latency.

    Each criterion decides only where the difference is beyond noise.
    """
    if len(views) == 1:
        return Advice(views[0], (f"Use {views[0].label}: {figures_text(views[0])}.",))
    if len(lengths := lengths_of(views)) > 1 and same_but_for_length(views):
        told = "; ".join(
            [*lengths[:NAMED], *([f"and {len(lengths) - NAMED} more"] if lengths[NAMED:] else [])]
        )
        return Advice(
            None, (f"They differ in how many samples there are alone ({told}): there is none to choose.",)
        )
    by = MAX_RATE if all(view.value(FIGURES[MAX_RATE]) is not None for view in views) else THROUGHPUT
    order = sorted(views, key=samples_per_s, reverse=True)
    best = order[0]
    if by == MAX_RATE and (lower := [v.label for v in order[1:] if FIGURES[by].unbounded_in(v.summary)]):
        text = (
            f"{best.label} has the highest rate that is known, {figures_text(best)}; that of {listing(lower)} is a "
            "lower bound, for the search ended before it met a rate that breaks the objective: nobody knows which is "
            "higher."
        )
        return Advice(None, (text,), by, tuple(views))
    tied = [view for view in order if view is best or not judge.differ(best, view, by)]
    if len(tied) == 1:
        second = order[1]
        gain = samples_per_s(best) / samples_per_s(second) if samples_per_s(second) else math.inf
        why = (
            f"Use {best.label}: {figures_text(best)}, {gain:.2f} times the throughput of {second.label} "
            f"({figures_text(second)})."
        )
        return Advice(best, (why,), by, tuple(views))
    low_rate, high_rate = number(samples_per_s(tied[-1]), 4), number(samples_per_s(best), 4)
    sentences = [
        f"{'All' if len(tied) == len(views) else f'{len(tied)} of them'} answer "
        f"{high_rate if low_rate == high_rate else f'{low_rate} to {high_rate}'} samples/s: the same within noise."
    ]
    if len(lengths_of(tied)) > 1:
        sentences.append(
            "How long a request waits follows from how many there are at once, which differs here: nothing else is "
            "compared."
        )
        return Advice(None, tuple(sentences), None, tuple(tied))
    cpus = sorted(
        ((cpu, index) for index, view in enumerate(tied) if (cpu := view.value(FIGURES[CPU])) is not None)
    )
    held_apart = not_one_clock([tied[index] for _, index in cpus])
    if len(cpus) == len(tied) and held_apart:
        sentences.append(f"CPU per sample is not compared: {held_apart}.")
    elif len(cpus) == len(tied):
        low, high = cpus[0][0], cpus[-1][0]
        cheap, dear = tied[cpus[0][1]], tied[cpus[-1][1]]
        frugal = [v for _, i in cpus if (v := tied[i]) is cheap or not judge.differ(cheap, v, CPU)]
        more = f"{dear.label} needs {number(high)} ms ({high / low:.1f} times as much)."
        if len(frugal) == 1:
            sentences.append(
                f"Use {cheap.label}: its server needs {number(low)} ms of CPU per sample, {more}"
            )
            price = _latency_price(cheap, tied, judge)
            return Advice(
                cheap, (*sentences, *doubt(*(view.summary for view in tied)), price), CPU, tuple(tied)
            )
        if len(frugal) == len(tied):
            sentences.append("CPU per sample does not differ beyond noise.")
        else:
            sentences.append(
                f"{len(frugal)} of these need the least CPU per sample, {number(low)} ms within noise; {more}"
            )
        tied = frugal
    quantile = common_quantile(tied)
    if quantile is None:
        sentences.append("Too few requests for a percentile: measure longer to tell them apart.")
        return Advice(None, tuple(sentences), None, tuple(tied))
    by_latency = sorted(tied, key=lambda view: view.figure(f"e2e_latency_ms.{quantile}"))
    fast, second = by_latency[0], by_latency[1]
    figure = figure_of(quantile)
    if all(surely_lower(fast, view, quantile, judge) for view in by_latency[1:]):
        a, b = (with_interval(view, quantile) for view in (fast, second))
        sentences.append(f"Use {fast.label}: its {quantile} is {a}, that of {second.label} {b}.")
        return Advice(fast, tuple(sentences), figure, tuple(tied))
    return Advice(None, (*sentences, *free_choice(by_latency, quantile, judge)), figure, tuple(tied))


def not_one_clock(views: Sequence[RunView]) -> str | None:
    """Why the CPU times of some two of the runs are not of the same thing; None where nothing shows that."""
    texts = [differ(one.summary, other.summary) for one, other in combinations(views, 2)]
    return next((text for text in texts if text), None)


def common_quantile(views: Sequence[RunView]) -> str | None:
    """The highest percentile that all of them have."""
    for quantile in ("p99", "p95", "p90", "p50"):
        if all(view.figure(f"e2e_latency_ms.{quantile}") is not None for view in views):
            return quantile
    return None


def samples_per_s(view: RunView) -> float:
    """What it was asked to find, if it searched for its highest rate; else what it answered."""
    found = view.value(FIGURES[MAX_RATE])
    return float((view.figure("throughput_samples_per_s") or 0.0) if found is None else found)


def _latency_price(leader: RunView, tied: Sequence[RunView], judge: JudgedRuns) -> str:
    quantile = common_quantile(tied)
    if quantile is None:
        return "Too few requests for a percentile of the latency."
    fastest = min(tied, key=lambda view: view.figure(f"e2e_latency_ms.{quantile}"))
    ours, best = (with_interval(view, quantile) for view in (leader, fastest))
    if leader is fastest:
        return lowest(leader, tied, quantile, judge)
    if not surely_lower(fastest, leader, quantile, judge):
        return (
            f"Its {quantile}, {ours}, is not distinguishable from {best} of {fastest.label}. "
            f"{settling(leader, fastest, quantile, judge)}"
        )
    return (
        f"The price is latency: {quantile} {ours} against {best} of {fastest.label}; "
        f"take that one where latency matters more than CPU."
    )


def figures_text(view: RunView) -> str:
    """What a run answers, and how fast."""
    quantile = common_quantile([view])
    latency = f", {quantile} {number(view.figure(f'e2e_latency_ms.{quantile}'))} ms" if quantile else ""
    return f"{number(samples_per_s(view), 4)} samples/s{latency}"
