"""What makes the difference between two stacks: group by group, adding up to the difference of their runs.

With ``t`` a mean over the rounds' middle runs (``profile``): t(B) - t(A) = sum over the groups of their layers'
t(B) - t(A), plus the same of what is between layers. The ratio's interval is of the rounds, each of which had a server
of its own: exp(d +- q s), where d is the difference of the means of ln t, s its standard error by both sides' own
variances, and q Student's quantile with Welch's degrees of freedom. It is each row's own: of twenty rows one excludes 1
by chance. None where a side has fewer than two rounds or a time of 0, and where the rounds do not differ at all.

A difference is of arithmetic means and a ratio of geometric ones, in which a single slow round weighs less: of rounds
that differ more than the sides they may point to different sides, and then neither is told (``one_way``).

The same times added in another order differ in the last digits: what differs by less than a billionth does not differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from scipy.stats import t as student

from inferbench_tasks.analysis.stack.match import Group, match
from inferbench_tasks.analysis.stack.profile import Layer, Profile

BETWEEN = "between layers"
#: Times that differ by less, as a share of themselves, are the same ones, added up in another order.
_ALIKE = 1e-9
#: What such sums may be off by, as a share of the run that they are parts of: between its layers may be nothing.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Row:
    """One group, or what is between the layers; ms. ``difference_ms``: what the right side takes more, 0 where that is
    rounding alone. ``ratio``: right by left.
    """

    what: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    kind: str
    shape: tuple[int, ...] | None
    left_ms: float
    right_ms: float
    difference_ms: float
    ratio: float | None
    ci95: tuple[float, float] | None

    @property
    def one_way(self) -> bool:
        """Whether difference and ratio call the same side the slower one, or neither."""
        return _one_way(self.difference_ms, self.ratio)


@dataclass(frozen=True)
class Difference:
    """``rows``: those that differ most first; they add up to ``difference_ms``."""

    left: Profile
    right: Profile
    ratio: float
    ci95: tuple[float, float] | None
    rows: tuple[Row, ...]

    @property
    def difference_ms(self) -> float:
        """What a run on the right takes more."""
        return _apart_ms(self.left.framework_ms, self.right.framework_ms, 0.0)

    @property
    def one_way(self) -> bool:
        """Whether difference and ratio call the same side the slower one, or neither."""
        return _one_way(self.difference_ms, self.ratio)

    @property
    def shown(self) -> bool:
        """Whether the two are told apart: by single rounds they are, for nobody can know how sure that is."""
        alike = self.ci95 is not None and self.ci95[0] <= 1 <= self.ci95[1]
        return bool(self.difference_ms) and self.one_way and not alike

    def as_rows(self) -> list[dict[str, Any]]:
        """As a table; ``share_ratio``: of the whole difference, which may be made of parts of both signs; None where
        no difference is shown, of which nothing is a part."""
        whole = self.difference_ms if self.shown else 0.0
        return [
            {
                "what": row.what,
                "left": " + ".join(row.left),
                "right": " + ".join(row.right),
                "kind": row.kind,
                "shape": list(row.shape) if row.shape else None,
                "left_ms": row.left_ms,
                "right_ms": row.right_ms,
                "difference_ms": row.difference_ms,
                "share_ratio": row.difference_ms / whole if whole else None,
                "ratio": row.ratio,
                "low": row.ci95[0] if row.ci95 else None,
                "high": row.ci95[1] if row.ci95 else None,
            }
            for row in self.rows
        ]


def difference(left: Profile, right: Profile) -> Difference:
    """The right profile against the left."""
    rounding_ms = _ROUNDING * max(left.framework_ms, right.framework_ms)
    rows = [_row(group, left, right, rounding_ms) for group in match(left.layers, right.layers)]
    between = (left.between_ms_by_round, right.between_ms_by_round)
    rows.append(
        Row(
            BETWEEN,
            (),
            (),
            "",
            None,
            *_sides(fmean(between[0]), fmean(between[1]), rounding_ms),
            *ratio_of(*between),
        )
    )
    rows.sort(key=lambda row: -abs(row.difference_ms))
    ratio, ci95 = ratio_of(left.framework_ms_by_round, right.framework_ms_by_round)
    assert ratio is not None, "a run takes time"
    return Difference(left, right, ratio, ci95, tuple(rows))


def ratio_of(
    left: Sequence[float], right: Sequence[float]
) -> tuple[float | None, tuple[float, float] | None]:
    """The geometric mean of the right by that of the left, and its interval; None where there is none."""
    if min(left, default=0) <= 0 or min(right, default=0) <= 0:
        return None, None
    logs = [[math.log(value) for value in side] for side in (left, right)]
    size = fmean(logs[1]) - fmean(logs[0])
    size = 0.0 if abs(size) < _ALIKE else size
    if min(map(len, logs)) < 2:
        return math.exp(size), None
    errors = [variance(side) / len(side) for side in logs]
    error = math.sqrt(sum(errors))
    if error < _ALIKE:  # a clock too coarse to see how the rounds differ: nobody knows how sure that is
        return math.exp(size), None
    freedom = sum(errors) ** 2 / sum(e**2 / (len(side) - 1) for e, side in zip(errors, logs, strict=True))
    half = float(student.ppf(0.975, freedom)) * error
    return math.exp(size), (math.exp(size - half), math.exp(size + half))


def _apart_ms(left_ms: float, right_ms: float, rounding_ms: float) -> float:
    """What the right takes more; 0 where the two are the same but for rounding."""
    alike = math.isclose(left_ms, right_ms, rel_tol=_ALIKE, abs_tol=rounding_ms)
    return 0.0 if alike else right_ms - left_ms


def _one_way(difference_ms: float, ratio: float | None) -> bool:
    return ratio is not None and (difference_ms > 0, difference_ms < 0) == (ratio > 1, ratio < 1)


def _sides(left_ms: float, right_ms: float, rounding_ms: float) -> tuple[float, float, float]:
    return left_ms, right_ms, _apart_ms(left_ms, right_ms, rounding_ms)


def _row(group: Group, left: Profile, right: Profile, rounding_ms: float) -> Row:
    def by_round(layers: tuple[Layer, ...], profile: Profile) -> list[float]:
        rounds = range(len(profile.framework_ms_by_round))
        return [sum(layer.ms_by_round[at] for layer in layers) for at in rounds]

    sides = by_round(group.left, left), by_round(group.right, right)
    ratio, ci95 = ratio_of(*sides) if group.left and group.right else (None, None)
    return Row(
        group.what,
        tuple(layer.name for layer in group.left),
        tuple(layer.name for layer in group.right),
        group.first.kind,
        group.first.shape,
        *_sides(fmean(sides[0]), fmean(sides[1]), rounding_ms),
        ratio,
        ci95,
    )
