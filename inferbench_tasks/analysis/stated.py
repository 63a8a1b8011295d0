"""What a result says itself of the error of its figures: intervals, counts, the uncertainty of a method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from inferbench_tasks.analysis import steadiness
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
#: Which machine it was: the host, its device, and of a GPU which board.
_MACHINE = ("environment.system.host", "device.name", "environment.hardware.gpu.uuid")
_CPU = "cpu_ms_per_sample"


@dataclass(frozen=True)
class Stated:
    """``within``: standard error within a run. ``systematic``: that of the method, which more runs don't lessen.

    ``source``: whose that is, a method on one machine; of two results with the same it is the same factor, which drops
    out of their ratio. None where it is not known, or is no factor.
    ``plain``: two such values are judged by their difference, not by their ratio: a share of few requests is near 0,
    where its logarithm says nothing.

    ``extremes``: of a percentile that the data can't bound, the fastest request and the p99: whatever chance made of
    the episodes that it rests on, it lies between them. ``moved``: how far the rate went in the run, of what follows
    from it: neither a longer run nor a second one makes it steady, and it drops out of no ratio.
    """

    within: float = 0.0
    systematic: float = 0.0
    plain: bool = False
    #: False where intervals were looked for, and the data could not bound one: ``within`` is then only what is usual.
    bounded: bool = True
    source: tuple[str, ...] | None = None
    extremes: tuple[float, float] | None = None
    moved: float = 0.0

    def after(self, times: float) -> Stated:
        """That of a run that is so many times as long."""
        return replace(self, within=self.within / math.sqrt(times))


NOTHING = Stated()


def needed(figure: Figure) -> tuple[str, ...]:
    """Where in a result stands what ``stated`` reads."""
    paths = [figure.field_path]
    if figure.interval:
        paths.append(f"summary.{_group(figure.interval)}")
        paths += [f"summary.{path}" for path in _ends(figure)]
    paths += [f"summary.{path}" for path in (figure.counted, figure.share_of) if path]
    if figure.energy_based:
        paths += [f"summary.{_UNCERTAINTY}", f"summary.{_METHOD}", *_MACHINE, *needed(FIGURES[_CPU])]
    if steadiness.of_the_rate(figure):
        paths += steadiness.PATHS
    return tuple(paths)


def part_of(result: ResultDocument) -> dict[str, Any]:
    """Of a result as it is read, what ``stated`` needs of it."""
    return result.model_dump(include={"summary", "device", "environment", "certificate"})


def stated(figure: Figure, result: Mapping[str, Any]) -> Stated:
    """What a result, as plain nested mappings, says of the error of one of its figures."""
    summary = result.get("summary") or {}
    value = figure.value(summary)
    if value is None:
        return NOTHING
    if figure.share_of and (requests := value_at(summary, figure.share_of)):
        return Stated(share_error(value, requests), plain=True)
    moved = steadiness.change_ratio(result) * abs(value) if steadiness.of_the_rate(figure) else 0.0
    if figure.energy_based:
        return replace(_of_energy(figure, value, result), moved=moved)
    within, bounded = _within(figure, value, summary), no_interval(figure, summary) is None
    return Stated(within, bounded=bounded, extremes=_extremes(figure, value, summary), moved=moved)


def _of_energy(figure: Figure, value: float, result: Mapping[str, Any]) -> Stated:
    """What was worked out of CPU time is known no better within the run than that."""
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
    return Stated(within, (ratio or 0.0) * abs(value) / Z95, source=source)


def no_interval(figure: Figure, summary: Mapping[str, Any]) -> str | None:
    """Why a figure that was measured has no interval though one was looked for; None where it has one."""
    looked_for = figure.interval and value_at(summary, _group(figure.interval)) is not None
    if not looked_for or figure.value(summary) is None or figure.interval_in(summary):
        return None
    path = f"{_group(figure.interval or '')}_reasons.{last(figure.path)}"
    return str(value_at(summary, path) or "its data can't bound it")


def share_error(share: float, requests: int) -> float:
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


def _extremes(figure: Figure, value: float, summary: Mapping[str, Any]) -> tuple[float, float] | None:
    """See ``Stated``; None of a p99, beyond which a run may not have seen what there is."""
    ends = _ends(figure)
    if not ends or no_interval(figure, summary) is None:
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
