"""Whether two runs' percentiles can be told apart, in words, and which runs would settle it if they can't."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferbench_tasks.analysis.certainty import MOST_RUNS, length_to_settle, runs_to_settle
from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.stated import extremes
from inferbench_tasks.figures import FIGURES

if TYPE_CHECKING:
    from inferbench_tasks.analysis.report.judged import JudgedRuns
    from inferbench_tasks.analysis.report.runs import RunView

#: Nobody is asked for a longer run than this, seconds.
LONGEST_S = 3600.0
#: A run so much longer than needed, since the estimates it is reckoned from are themselves uncertain.
_MARGIN = 1.2
#: So many rivals are named.
_NAMED = 3


def figure_of(quantile: str) -> str:
    """The figure's name of a percentile of the latency."""
    return FIGURES.named(quantile).name


def value(view: RunView, quantile: str) -> float:
    """A run's percentile, ms; of runs that have it."""
    return float(view.figure(f"e2e_latency_ms.{quantile}"))


def interval(view: RunView, quantile: str) -> tuple[float, float] | None:
    """The 95% confidence interval of a run's percentile, ms."""
    return FIGURES.named(quantile).interval_in(view.summary)


def reach(view: RunView, quantile: str) -> tuple[float, float] | None:
    """Between what a run's percentile lies, ms: its interval; of one that the data can't bound the fastest request and
    the p99 (``Stated.extremes``). None where nothing bounds it.
    """
    return interval(view, quantile) or extremes(FIGURES.named(quantile), view.summary)


def surely_lower(a: RunView, b: RunView, quantile: str, judge: JudgedRuns) -> bool:
    """Whether the first run's percentile is: something bounds both, these bounds don't meet, and the judge says so too.

    Without any nobody knows what a percentile is worth: one disturbed run may have it all.
    """
    first, second = reach(a, quantile), reach(b, quantile)
    if first is None or second is None or first[1] >= second[0]:
        return False
    return judge.differ(a, b, figure_of(quantile))


def lowest(leader: RunView, others: Sequence[RunView], quantile: str, judge: JudgedRuns) -> str:
    """What can be said of a run that shows the lowest percentile of all: that it is the lowest only if it surely is."""
    rivals = [v for v in others if v is not leader and not surely_lower(leader, v, quantile, judge)]
    ours = with_interval(leader, quantile)
    if not rivals:
        return f"It also has the lowest {quantile}, {ours}."
    rivals.sort(key=lambda view: value(view, quantile))
    names = _some([f"{with_interval(view, quantile)} of {view.label}" for view in rivals])
    return (
        f"Its {quantile}, {ours}, is not distinguishable from {names}. "
        f"{settling(leader, rivals[0], quantile, judge)}"
    )


def free_choice(order: Sequence[RunView], quantile: str, judge: JudgedRuns) -> list[str]:
    """What can be said of runs, the lowest percentile first, of which no other figure chooses: which are as good as the
    first, and which surely are not.
    """
    first = order[0]
    alike = [v for v in order if v is first or not surely_lower(first, v, quantile, judge)]
    names = _some([view.label for view in alike])
    choice = (
        f"Their {quantile} does not differ beyond noise: choose freely between {names}."
        if all(interval(view, quantile) is not None for view in alike)
        else f"Nothing tells the {quantile} of {names} apart."
    )
    slower = [f"{view.label} {with_interval(view, quantile)}" for view in order if view not in alike]
    others = [f"Surely higher is the {quantile} of {_some(slower)}."] if slower else []
    return [f"{choice} {settling(first, alike[1], quantile, judge)}", *others]


def _some(names: Sequence[str]) -> str:
    """``a``, ``a and b``, or the first few ``and 9 more``; labels have commas of their own."""
    if len(names) > _NAMED + 1:
        return f"{'; '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
    *most, last = names
    return f"{'; '.join(most)} and {last}" if most else last


def with_interval(view: RunView, quantile: str) -> str:
    """``1.85 ms (1.7 to 2)``; without an interval ``1.85 ms (no interval; 99% of its requests within 1.3 to 4)``, and
    where nothing bounds it ``1.85 ms``.
    """
    bounds = reach(view, quantile)
    text = f"{number(value(view, quantile))} ms"
    if bounds is None:
        return text
    without = "" if interval(view, quantile) else "no interval; 99% of its requests within "
    return f"{text} ({without}{number(bounds[0])} to {number(bounds[1])})"


def settling(a: RunView, b: RunView, quantile: str, judge: JudgedRuns) -> str:
    """Which runs would tell the percentiles of two runs apart, if they stay what they are."""
    fast, slow = sorted((a, b), key=lambda view: value(view, quantile))
    estimates = [judge.estimate(view, figure_of(quantile)) for view in (fast, slow)]
    times = length_to_settle(*estimates)
    if times is None:
        x, y = value(fast, quantile), value(slow, quantile)
        more = (
            f"more than {MOST_RUNS} runs of each would be needed to tell"
            if runs_to_settle(*estimates) is None
            else "several runs of each, in turns, would settle it"
        )
        return f"They differ by {(y - x) / y:.1%}, which is within a machine's drift from run to run: {more}."
    if interval(fast, quantile) is None or interval(slow, quantile) is None:
        return "There is no confidence interval of one of them: longer runs of both would settle it."
    seconds = _MARGIN * times * max(float(view.job["load"]["duration_s"]) for view in (fast, slow))
    if seconds > LONGEST_S:
        return "Even runs of an hour each would hardly settle it."
    return f"A run of {math.ceil(seconds):,d} s of each would settle it, if the figures stay."
