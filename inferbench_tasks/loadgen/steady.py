"""When a server has warmed up, and whether it stays as it is: decided from the stream of its answers.

Time is cut into bins; each has a level (the median latency: robust against single slow answers) and a
throughput. A stretch of bins is steady if neither shows a trend that would matter over the whole load, nor
a change of level, and if it is known well enough. The stretch begins where the start's transient ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from inferbench_tasks.loadgen.bins import cut_into_bins
from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.level_changes import (
    Series,
    long_run_variance,
    merged,
    noise_variance,
    segments,
    straight_line,
    without_spikes,
)
from inferbench_tasks.loadgen.spool import Spool

_NS_PER_S = 1e9


class SteadySettings(BaseModel):
    """What counts as steady; data, and stated with the result."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    #: A change of level, or a trend over the whole load, of this share of the level matters.
    tolerance_ratio: float = Field(default=0.1, gt=0, lt=1)
    #: Changes of the latency below this are the machine's, not the server's.
    tolerance_ms: float = Field(default=0.1, ge=0)
    #: Standard errors beyond which a trend is no chance.
    trend_z: float = Field(default=3.0, gt=0)
    #: What a change of level must explain, in long-run variances of the noise times ln(bins).
    step_penalty: float = Field(default=4.0, gt=0)
    #: Changes closer together than this are noise.
    min_level_s: float = Field(default=4.0, gt=0)
    #: After a change of level: the trend over the load that the new level's stretch can't exclude.
    unknown_trend_ratio: float = Field(default=0.3, gt=0)
    #: The standard error of the level must be below this share of it.
    precision_ratio: float = Field(default=0.1, gt=0, lt=1)
    #: A steady stretch is at least this long, and at least this share of what is looked at; it has at least
    #: so many bins, and so many answers.
    min_stretch_s: float = Field(default=5.0, gt=0)
    min_stretch_ratio: float = Field(default=0.2, gt=0, lt=1)
    min_bins: int = Field(default=24, ge=8)
    min_answers: int = Field(default=100, ge=10)
    #: Bins are as short as possible with this many answers on average, and no shorter than the next.
    answers_per_bin: int = Field(default=10, ge=1)
    min_bin_s: float = Field(default=0.25, gt=0)
    max_bins: int = Field(default=2000, ge=100)


@dataclass(frozen=True)
class SteadyState:
    """``start_ns``: where the steady stretch begins, None if there is none. ``reason`` says why, in words.

    ``judged`` is False where there are too few answers to tell: a slow server is not an unsteady one.
    """

    start_ns: int | None
    reason: str
    judged: bool = True
    #: How far the throughput drifted over the load or lies between its levels, as a share of its level and with the
    #: drift's sign; 0 where it was steady, None where nobody can tell.
    throughput_change_ratio: float | None = None

    @property
    def steady(self) -> bool:
        """Whether there is a steady stretch up to the end."""
        return self.start_ns is not None


def find_steady_state(
    done_ns: NDArray[np.int64],
    latency_ns: NDArray[np.int64],
    *,
    start_ns: int,
    end_ns: int,
    settings: SteadySettings | None = None,
) -> SteadyState:
    """The longest steady stretch of [start_ns, end_ns) that reaches to its end.

    ``done_ns`` and ``latency_ns``: of the good answers, in any order. A trend is judged by what it makes of the level
    over the whole of what is given.
    """
    limits = settings or SteadySettings()
    inside = (done_ns >= start_ns) & (done_ns < end_ns)
    ends_ns, latency = done_ns[inside], latency_ns[inside]
    span_s = (end_ns - start_ns) / _NS_PER_S
    if len(ends_ns) < limits.min_answers or span_s < limits.min_stretch_s:
        return SteadyState(
            None,
            f"{len(ends_ns)} answers in {span_s:.1f} s are too few to tell (at least {limits.min_answers} answers "
            f"and {limits.min_stretch_s:g} s)",
            judged=False,
        )
    width_s = max(limits.min_bin_s, limits.answers_per_bin * span_s / len(ends_ns), span_s / limits.max_bins)
    bins = cut_into_bins(ends_ns, latency, start_ns, end_ns, width_s)
    stretch_s = max(limits.min_stretch_s, limits.min_stretch_ratio * span_s)
    least = max(limits.min_bins, math.ceil(stretch_s / bins.width_s - 1e-9))
    if len(bins.level) < least:
        return SteadyState(
            None, f"{len(bins.level)} bins of {bins.width_s:.2f} s are too few to tell", judged=False
        )
    first = bins.transient(limits.tolerance_ratio / 2)
    start, problem = first, None
    change_ratio: float | None = None
    for name, unit, series, floor in (
        ("latency", "ms", bins.level, limits.tolerance_ms),
        ("throughput", "requests/s", bins.rate, 0.0),
    ):
        # A tolerance of a share of the level, or of an absolute amount if that is more.
        tolerance = max(limits.tolerance_ratio, floor / max(float(np.median(series)), 1e-12))
        look = _Look(first, least, bins.width_s, span_s, min(tolerance, 10.0), unit)
        stretch = _stretch(series, look, limits)
        if isinstance(stretch, _Unsteady):
            # Why it is not steady is told of the latency first; the throughput's part in it is known either way.
            problem = problem or f"the {name} {stretch.text}"
            moved = stretch.change_ratio
        else:
            start = max(start, stretch)
            moved = _step_ratio(series[first:], stretch - first)
        change_ratio = moved if name == "throughput" else change_ratio
    if problem is not None:
        return SteadyState(None, problem, throughput_change_ratio=change_ratio)
    if len(bins.level) - start < least:
        return SteadyState(
            None,
            f"steady only for the last {(len(bins.level) - start) * bins.width_s:.1f} s "
            f"(at least {least * bins.width_s:.1f} s)",
            throughput_change_ratio=change_ratio,
        )
    begin_ns = start_ns + round(start * bins.width_s * _NS_PER_S)
    return SteadyState(begin_ns, "steady", throughput_change_ratio=0.0)


def steady_state_of(spools: Iterable[Path], *, start_ns: int, end_ns: int) -> SteadyState:
    """The same of a load by its senders' records; errors say nothing of the server's level and don't count."""
    done_ns, latency = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for path in spools:
        spool = Spool(path)
        for piece in spool.pieces():
            good = piece[piece["status"] == spool.statuses.index(OK)]
            done_ns.append(good["done_ns"].astype(np.int64))
            latency.append((good["done_ns"] - good["intended_ns"]).astype(np.int64))
    return find_steady_state(
        np.concatenate(done_ns), np.concatenate(latency), start_ns=start_ns, end_ns=end_ns
    )


@dataclass(frozen=True)
class _Look:
    """How a series is looked at: from bin ``first`` on, for a stretch of ``least`` bins."""

    first: int
    least: int
    width_s: float
    span_s: float
    tolerance_ratio: float
    unit: str


def _step_ratio(series: Series, place: int) -> float:
    """How far what comes before a place of a series lies from what follows, as a share of its level."""
    return float((series[place:].mean() - series[:place].mean()) / series.mean()) if place else 0.0


@dataclass(frozen=True)
class _Unsteady:
    """Why, in words, and how far the series moved as a share of its level; None where that is not known."""

    text: str
    change_ratio: float | None


def _stretch(series: Series, look: _Look, limits: SteadySettings) -> int | _Unsteady:
    """The bin in which the last steady stretch begins; or why there is none."""
    first, width_s, unit = look.first, look.width_s, look.unit
    clean = without_spikes(series)[first:]
    level = float(clean.mean())
    if len(clean) < limits.min_bins or level <= 0:
        text = (
            f"settled only after {first * width_s:.1f} s, at {level:.4g} {unit}: too little is left to tell"
        )
        return _Unsteady(text, None)
    noise = noise_variance(clean)
    penalty = limits.step_penalty * noise * math.log(len(clean))
    least = max(4, round(limits.min_level_s / width_s))
    pieces = merged(segments(clean, penalty, least), look.tolerance_ratio)
    levels = [f"{piece.level:.4g}" for piece in pieces]
    apart = (max(piece.level for piece in pieces) - min(piece.level for piece in pieces)) / level
    text = ", ".join(levels[:8] + ["..."] * (len(levels) > 8)) + f" {unit}"
    changes = np.sign(np.diff([piece.level for piece in pieces]))
    if np.any(changes[1:] != changes[:-1]):
        return _Unsteady(f"switches between levels: {text}", apart)
    last = clean[pieces[-1].start :]
    slope, error, _ = straight_line(last)
    if len(pieces) > 1:
        whole_slope, whole_error, line_squares = straight_line(clean)
        step_squares = sum(float(((clean[p.start : p.stop] - p.level) ** 2).sum()) for p in pieces)
        step_cost = step_squares + penalty * (len(pieces) - 1)
        if line_squares < step_cost and abs(whole_slope) > limits.trend_z * whole_error:
            slope, error, last = whole_slope, whole_error, clean
        elif len(last) < look.least:
            return _Unsteady(f"changed {len(last) * width_s:.1f} s before the end: {text}", apart)
    bins = look.span_s / width_s
    level = float(last.mean())
    if abs(slope) > limits.trend_z * error and abs(slope) * bins > look.tolerance_ratio * level:
        change = slope * bins / level
        text = f"drifts by {change:+.0%} over the load, about a level of {level:.4g} {unit}"
        return _Unsteady(text, change)
    if len(pieces) > 1 and (abs(slope) + error) * bins > limits.unknown_trend_ratio * level:
        return _Unsteady(f"changed too late to tell whether it stays: {text}", apart)
    error = math.sqrt(long_run_variance(last - level) / len(last))
    if error > max(limits.precision_ratio, look.tolerance_ratio) * level:
        text = f"varies too much to be known: {level:.4g} +- {2 * error:.2g} {unit}"
        return _Unsteady(text, 2 * error / level)
    return first + pieces[-1].start
