"""Whether two runs' percentiles can be told apart, and which runs would settle it if they can't."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.runs import RunView

#: Differences below this share are called none, however narrow the statistics: a machine's own drift
#: between two runs is larger than what one run's interval shows.
SAME_RATIO = 0.05
#: Without an interval only a difference by such a factor counts as one.
PLAIN_FACTOR = 3.0
#: Nobody is asked for a longer run than this, seconds.
LONGEST_S = 3600.0
#: A run so much longer than needed, since the estimates it is reckoned from are themselves uncertain.
_MARGIN = 1.2
#: So many rivals are named.
_NAMED = 3


def latency_differs(a: RunView, b: RunView, quantile: str) -> bool:
    """Whether two runs' percentile differs beyond noise: disjoint 95% intervals and more than a machine's drift; where
    one of them has no interval, by a factor that no noise makes.
    """
    first, second = (interval(view, quantile) for view in (a, b))
    x, y = (view.figure(f"e2e_latency_ms.{quantile}") for view in (a, b))
    if x is None or y is None:
        return False
    if first is None or second is None:
        return bool(max(x, y) > PLAIN_FACTOR * min(x, y))
    apart = first[1] < second[0] or second[1] < first[0]
    return bool(apart and abs(x - y) > SAME_RATIO * max(x, y))


def interval(view: RunView, quantile: str) -> tuple[float, float] | None:
    """The 95% confidence interval of a run's percentile, ms."""
    found = (view.figure("e2e_latency_ms.ci95") or {}).get(quantile)
    return None if found is None else (float(found[0]), float(found[1]))


def lowest(chosen: RunView, others: Sequence[RunView], quantile: str) -> str:
    """What can be said of a run that shows the lowest percentile of all: that it is the lowest only if it surely is."""
    rivals = [view for view in others if view is not chosen and not latency_differs(chosen, view, quantile)]
    ours = with_interval(chosen, quantile)
    if not rivals:
        return f"It also has the lowest {quantile}, {ours}."
    rivals.sort(key=lambda view: view.figure(f"e2e_latency_ms.{quantile}"))
    told = _some([f"{with_interval(view, quantile)} of {view.label}" for view in rivals])
    return (
        f"Its {quantile}, {ours}, is not distinguishable from {told}. {settling(chosen, rivals[0], quantile)}"
    )


def free_choice(ranked: Sequence[RunView], quantile: str) -> list[str]:
    """What can be said of runs, the lowest percentile first, of which no other figure chooses: which are as good as the
    first, and which surely are not.
    """
    first = ranked[0]
    alike = [view for view in ranked if view is first or not latency_differs(first, view, quantile)]
    names = _some([view.label for view in alike])
    found = (
        f"Their {quantile} does not differ beyond noise: choose freely between {names}."
        if all(interval(view, quantile) is not None for view in alike)
        else f"Nothing tells the {quantile} of {names} apart."
    )
    slower = [f"{view.label} {with_interval(view, quantile)}" for view in ranked if view not in alike]
    told = [f"Surely higher is the {quantile} of {_some(slower)}."] if slower else []
    return [f"{found} {settling(first, ranked[1], quantile)}", *told]


def _some(names: Sequence[str]) -> str:
    """``a``, ``a and b``, or the first few ``and 9 more``; labels have commas of their own."""
    if len(names) > _NAMED + 1:
        return f"{'; '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    *most, last = names
    return f"{'; '.join(most)} and {last}" if most else last


def with_interval(view: RunView, quantile: str) -> str:
    """``1.85 ms (1.7 to 2)``."""
    value, bounds = view.figure(f"e2e_latency_ms.{quantile}"), interval(view, quantile)
    return f"{value:.3g} ms" + ("" if bounds is None else f" ({bounds[0]:.3g} to {bounds[1]:.3g})")


def settling(a: RunView, b: RunView, quantile: str) -> str:
    """Which runs would tell the percentiles of two runs apart, if they stay what they are."""
    (fast, slow) = sorted((a, b), key=lambda view: view.figure(f"e2e_latency_ms.{quantile}"))
    x, y = (view.figure(f"e2e_latency_ms.{quantile}") for view in (fast, slow))
    if y - x <= SAME_RATIO * y:
        return (
            f"They differ by {(y - x) / y:.1%}, which is within a machine's drift from run to run: "
            f"several runs of each, in turns, would settle it."
        )
    first, second = interval(fast, quantile), interval(slow, quantile)
    if first is None or second is None:
        return "There is no confidence interval of one of them: longer runs of both would settle it."
    # Intervals shrink with the square root of the samples.
    longer = _MARGIN * (((first[1] - x) + (y - second[0])) / (y - x)) ** 2
    seconds = longer * max(float(view.job["load"]["duration_s"]) for view in (fast, slow))
    if seconds > LONGEST_S:
        return "Even runs of an hour each would hardly settle it."
    return f"A run of {math.ceil(seconds):,d} s of each would settle it, if the figures stay."
