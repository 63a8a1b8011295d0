"""What a result says itself of the error of its figures: intervals, counts, the uncertainty of a method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferbench_tasks.analysis import same_samples, steadiness
from inferbench_tasks.analysis.same_samples import Answers, answers_of
from inferbench_tasks.dotted import last, value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.statistics import NAMES
from inferbench_tasks.perfdb.documents import ResultDocument

#: Standard errors from a mean to the end of its 95% interval.
Z95 = 1.959964
#: What the data can't bound (``statistics.intervals``) rests on a few episodes of a queue. By this share, root mean
#: square, it differed between runs of the same simulated queue; from queue to queue it was .05 to .39.
UNBOUNDED_RATIO = 0.25
#: The percentiles that have another beyond them on either side.
_WITHIN = (NAMES[0.5], NAMES[0.9], NAMES[0.95])
#: Half of the 95% interval of an energy by its method, as a share: see ``metrics.energy``.
_UNCERTAINTY = "energy.uncertainty_ratio"
_METHOD = "energy.method"
#: Of a method that counts a whole machine: which part of it the job had, and what others used of it.
_WHOLE = "energy.machine"
#: Which machine it was: the host, its device, and of a GPU which board.
_MACHINE = ("environment.system.host", "device.name", "environment.hardware.gpu.uuid")
_CPU = "cpu_ms_per_sample"
#: How many samples the requests carry: where any has a label, all of them have (``stages.generate``).
_ASKED = "extensions.requests.samples"
#: Why an accuracy has no error of its own.
NOT_COUNTED = "of how many samples it is was not stored"


@dataclass(frozen=True)
class Stated:
    """``within``: standard error within a run. ``systematic``: that of the method, which more runs don't lessen.

    ``source``: whose that is, a method on one machine; of two results with the same it is the same factor, which drops
    out of their ratio. None where it is not known, or is no factor.
    ``plain``: two such values are judged by their difference, not by their ratio: a share of few requests is near 0,
    where its logarithm says nothing.

    ``extremes``: of a percentile that the data can't bound, the fastest request and the p99: whatever chance made of
    the episodes that it rests on, it lies between them. ``beside``: of several runs together, what is left of
    ``within`` at these ends, of those that could bound their own. ``moved``: how far the rate went in the run, of what
    follows from it, and what others may have in an energy of a whole machine: neither a longer run nor a second one
    makes it steady, and it drops out of no ratio. ``answers``:
    to which samples the answer was right, so that two shares of right ones can be compared in pairs.
    """

    within: float = 0.0
    systematic: float = 0.0
    plain: bool = False
    #: False where intervals were looked for, and the data could not bound one: ``within`` is then only what is usual.
    bounded: bool = True
    source: tuple[str, ...] | None = None
    extremes: tuple[float, float] | None = None
    beside: float = 0.0
    moved: float = 0.0
    answers: Answers | None = None

    def after(self, times: float) -> Stated:
        """That of a run that is so many times as long."""
        shorter = math.sqrt(times)
        return replace(self, within=self.within / shorter, beside=self.beside / shorter)


NOTHING = Stated()


def needed(figure: Figure) -> tuple[str, ...]:
    """Where in a result stands what ``stated`` reads."""
    paths = [figure.field_path, *(f"summary.{path}" for path in figure.follows_from)]
    if figure.otherwise and not figure.follows_from:
        paths.append("summary")  # of a package, which did not say what it reads
    if figure.interval:
        paths.append(f"summary.{_group(figure.interval)}")
        paths += [f"summary.{path}" for path in _ends(figure)]
    paths += [f"summary.{path}" for path in (figure.counted, figure.share_of, *figure.worth) if path]
    if figure.worth:
        paths.append(f"summary.{_group(figure.worth[0])}.reason")
    if figure.energy_based:
        paths += [f"summary.{path}" for path in (_UNCERTAINTY, _METHOD, _WHOLE)]
        paths += [*_MACHINE, *needed(FIGURES[_CPU])]
    if steadiness.of_the_rate(figure):
        paths += steadiness.PATHS
    if figure.right_of:
        paths += [f"summary.{figure.right_of}", _ASKED, same_samples.PATH]
    return tuple(paths)


def part_of(result: ResultDocument) -> dict[str, Any]:
    """Of a result as it is read, what ``stated`` needs of it."""
    whole = dict.fromkeys(("summary", "device", "environment", "certificate"), True)
    return result.model_dump(include={**whole, "extensions": {"requests": True, "accuracy": True}})


def stated(figure: Figure, result: Mapping[str, Any]) -> Stated:
    """What a result, as plain nested mappings, says of the error of one of its figures."""
    summary = result.get("summary") or {}
    value = figure.value(summary)
    if value is None:
        return NOTHING
    if figure.right_of:
        return _of_samples(figure.right_of, value, result)
    if figure.share_of and (requests := value_at(summary, figure.share_of)):
        # Failures come in clusters: a stall is one event, however many requests it met. Older results don't say.
        worth = next((known for path in figure.worth if (known := value_at(summary, path))), requests)
        bounded = no_interval(figure, summary) is None
        return Stated(share_error(value, worth), plain=True, bounded=bounded)
    moved = steadiness.change_ratio(result) * abs(value) if steadiness.of_the_rate(figure) else 0.0
    if figure.energy_based:
        own = _of_energy(figure, value, result)
        return replace(own, moved=own.moved + moved)
    within, bounded = _within(figure, value, summary), no_interval(figure, summary) is None
    return Stated(within, bounded=bounded, extremes=extremes(figure, summary), moved=moved)


def together(each: Sequence[tuple[float, Stated]]) -> Stated:
    """Of the mean of several runs' values, by what each of them states of its own.

    Errors of chance are each run's own: of one of n runs the root mean square s, as of n alike, whose mean has s /
    sqrt(n). What a method is wrong by, and how far a rate moved, may go the same way in all of them: at worst the mean
    is wrong by the mean of these (JCGM 100:2008, 5.2.2, correlated input quantities), so that one run of five that
    moved by a fifth counts a twenty-fifth. The mean lies between the means of the ends of the runs' own.
    """
    if len(each) == 1:
        return each[0][1]
    alike = each[0][1]
    several = [one for _, one in each]
    ends = [one.extremes or ((value, value) if one.bounded else None) for value, one in each]
    between = [end for end in ends if end is not None]
    known = len(between) == len(each) and any(one.extremes for one in several)
    return Stated(
        _root_mean_square([one.within for one in several]),
        _mean([one.systematic for one in several]),
        plain=any(one.plain for one in several),
        bounded=all(one.bounded for one in several),
        source=alike.source if all(one.source == alike.source for one in several) else None,
        extremes=(_mean([low for low, _ in between]), _mean([high for _, high in between]))
        if known
        else None,
        beside=_root_mean_square([one.beside if one.extremes else one.within for one in several])
        if known
        else 0.0,
        moved=_mean([one.moved for one in several]),
        answers=alike.answers if all(one.answers == alike.answers for one in several) else None,
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(_mean([value**2 for value in values]))


def _of_samples(block: str, value: float, result: Mapping[str, Any]) -> Stated:
    """Of a share of right answers to labelled samples, the binomial's for the choice of the samples."""
    samples = value_at(result, f"summary.{block}.samples") or value_at(result, _ASKED)
    if not samples:
        return Stated(UNBOUNDED_RATIO * value, bounded=False)
    return Stated(share_error(value, samples), answers=answers_of(result, samples))


def _of_energy(figure: Figure, value: float, result: Mapping[str, Any]) -> Stated:
    """What was worked out of CPU time is known no better within the run than that; what counts a whole machine is
    wrong alike in two runs that had as much of its cores, but for what others used.
    """
    from inferbench_tasks.metrics.energy import FACTORS, OF_THE_SERVER

    summary = result["summary"]
    within, cpu = _within(figure, value, summary), FIGURES[_CPU]
    method, ratio = value_at(summary, _METHOD), value_at(summary, _UNCERTAINTY)
    if method == OF_THE_SERVER and (of_a_sample := cpu.stored(summary)):
        within = max(within, _within(cpu, of_a_sample, summary) / of_a_sample * abs(value))
    machine = [value_at(result, path) for path in _MACHINE]
    # Each board has its own counter, so that of a GPU has to be known too; of a processor's method it tells nothing.
    parts = machine if FACTORS.get(method) == "gpu" else machine[:2]
    source = (method, *map(str, parts)) if method in FACTORS and all(parts) else None
    whole = value_at(summary, _WHOLE) or {}
    if source and whole.get("cores") and whole["cores"] < (whole.get("of_cores") or 0):
        source = (*source, f"{whole['cores']:g} of {whole['of_cores']} cores")
    others = (whole.get("others_ratio") or 0.0) * abs(value)
    return Stated(within, (ratio or 0.0) * abs(value) / Z95, source=source, moved=others)


def no_interval(figure: Figure, summary: Mapping[str, Any]) -> str | None:
    """Why a figure that was measured has no interval though one was looked for; None where it has one.

    Of a share of requests: why nobody knows how many independent ones these are worth.
    """
    if figure.worth and figure.value(summary) is not None:
        reason = value_at(summary, f"{_group(figure.worth[0])}.reason")
        return None if reason is None else str(reason)
    looked_for = figure.interval and value_at(summary, _group(figure.interval)) is not None
    if not looked_for or figure.value(summary) is None or figure.interval_in(summary):
        return None
    path = f"{_group(figure.interval or '')}_reasons.{last(figure.path)}"
    return str(value_at(summary, path) or "its data can't bound it")


def share_error(share: float, requests: float) -> float:
    """Standard error of a share (0 to 1) of so many independent requests, the binomial's.

    By the mean of the share under Jeffreys' prior, (k + 1/2) / (n + 1): none of 100 failed is no proof that none does
    (Brown, Cai & DasGupta, "Interval estimation for a binomial proportion", 2001).
    """
    likely = (share * requests + 0.5) / (requests + 1)
    return math.sqrt(likely * (1 - likely) / requests)


def _within(figure: Figure, value: float, summary: Mapping[str, Any]) -> float:
    if no_interval(figure, summary) is not None:
        return UNBOUNDED_RATIO * abs(value)
    if bounds := figure.interval_in(summary):
        return (bounds[1] - bounds[0]) / 2 / Z95
    if figure.counted:
        # Events that are independent of each other: Poisson's law.
        count = value_at(summary, figure.counted)
        return abs(value) / math.sqrt(count) if count else 0.0
    return 0.0


def extremes(figure: Figure, summary: Mapping[str, Any]) -> tuple[float, float] | None:
    """See ``Stated``; None of a percentile with an interval, and of a p99, beyond which a run may not have seen what
    there is.
    """
    ends, value = _ends(figure), figure.value(summary)
    if not ends or value is None or no_interval(figure, summary) is None:
        return None
    low, high = (value_at(summary, path) for path in ends)
    return (low, high) if low is not None and high is not None and 0 < low <= value <= high else None


def _ends(figure: Figure) -> tuple[str, ...]:
    """Where below a summary stand the fastest request and the p99; () of a figure that does not lie between them."""
    block, _, name = figure.path.rpartition(".")
    return (f"{block}.min", f"{block}.{NAMES[0.99]}") if name in _WITHIN else ()


def _group(path: str) -> str:
    """Where a summary keeps all intervals of that kind; it is there where intervals were looked for at all."""
    return path.rpartition(".")[0]
