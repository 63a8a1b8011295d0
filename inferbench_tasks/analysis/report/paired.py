"""Configurations of an interleaved sweep, compared in pairs: each block's runs with each other.

What a machine does from one minute to the next meets the runs of a block alike and drops out of their ratio. The ln
ratios of the blocks are fitted by their mean and by the order in which the two ran: half of the blocks run backwards,
so that what drifts steadily, and what the one leaves behind for the next, is taken out by least squares. The interval
of the mean is Student's with two degrees of freedom less than there are blocks.

What repeats exactly is not known exactly: a search for the highest rate ends between the same two rates again, and a
count of answers has the same window's edges again. So the interval is wider by what such a figure can't tell.

A figure that some run lacks (a percentile withheld for its failures, a figure of 0) has no verdict: the blocks that are
left are those in which that configuration did well.

Disturbed runs count: a disturbance meets either side by chance, and the interval is as wide as that makes the blocks
differ. What the ratio is of is that machine, disturbed as it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from inferbench_tasks.analysis.certainty import Change
from inferbench_tasks.analysis.energy_ground import got_by
from inferbench_tasks.analysis.report import cpu_checks
from inferbench_tasks.analysis.report.alike import of_another, unlike
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.contracts.sending_hosts import all_of
from inferbench_tasks.dotted import value_at
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.comparison import part_of_machine
from inferbench_tasks.perfdb.offered import is_search, offered
from inferbench_tasks.submission.base import LEAST_BLOCKS
from inferbench_tasks.submission.digest import LABELS

NONE_SHOWN = "no difference shown"
#: Of a figure that one of two runs can't bound: whether they differ is open, and more requests would tell.
NOT_DECIDED = "not decided"
#: What the edges of a window make of the ratio of two counts of answers: the same in each block, for the schedule is.
EDGES_RATIO = 0.005


@dataclass(frozen=True)
class Pair:
    """The ln ratio of the second to the first in one block; whether the first ran before the second."""

    ln_ratio: float
    forwards: bool


@dataclass(frozen=True)
class PairedRatio:
    """Second / first over ``blocks`` blocks, ``disturbed`` of them with a disturbed run. In ``lacking`` more of them
    a run lacks the figure, or they have energies that were got in two ways, or with unlike parts of a machine.

    ``ci95``: holds with 95% together with those of all figures that are compared at once. ``verdict``: better or worse
    where it excludes 1; None where neither is better, or the two are of unlike things.
    """

    ratio: float
    ci95: tuple[float, float]
    blocks: int
    disturbed: int
    verdict: str | None
    probability: float
    lacking: int = 0


def change_of(pairs: Sequence[Pair]) -> Change | None:
    """The mean ln ratio with its error; None of fewer than ``LEAST_BLOCKS`` blocks."""
    if len(pairs) < LEAST_BLOCKS:
        return None
    ratios = np.array([pair.ln_ratio for pair in pairs])
    order = np.array([1.0 if pair.forwards else -1.0 for pair in pairs])
    one_order = bool(np.all(order == order[0]))
    design = np.ones((len(pairs), 1)) if one_order else np.column_stack([np.ones(len(pairs)), order])
    fit, *_ = np.linalg.lstsq(design, ratios, rcond=None)
    freedom = len(pairs) - design.shape[1]
    variance = float(((ratios - design @ fit) ** 2).sum()) / freedom
    error = math.sqrt(variance * float(np.linalg.inv(design.T @ design)[0, 0]))
    return Change(float(fit[0]), error, freedom)


class Blocks:
    """The runs of an interleaved sweep. ``configurations``: what each asks, in the order of the first block.

    ``left_out``: which blocks count for nothing, and why, in sentences.
    """

    def __init__(self, views: Sequence[RunView]) -> None:
        self._runs: dict[str, dict[int, RunView]] = {}
        for view in views:
            self._runs.setdefault(_asked(view), {})[_block(view)] = view
        self.left_out: list[str] = []
        self._leave_out(_usable, "with a run that failed or is not valid")
        self._leave_out_overlapping()

    @classmethod
    def among(cls, views: Iterable[RunView]) -> Blocks | None:
        """Those of the runs that are blocks of one interleaved sweep; None where fewer than two configurations are."""
        members = [view for view in views if view.result is not None and _block(view)]
        if len({_invocation(view) for view in members}) != 1 or len({_asked(view) for view in members}) < 2:
            return None
        return cls(members)

    @property
    def configurations(self) -> list[str]:
        return list(self._runs)

    def runs(self, configuration: str) -> list[RunView]:
        """Those that count, by block."""
        return [view for _, view in sorted(self._runs[configuration].items())]

    def configuration(self, view: RunView) -> str | None:
        """That of a run of this sweep."""
        return next(
            (key for key, runs in self._runs.items() if view.run_id in {v.run_id for v in runs.values()}),
            None,
        )

    def ratio(self, figure: str, first: str, other: str, comparisons: int = 1) -> PairedRatio | None:
        """Of a figure; None where fewer than ``LEAST_BLOCKS`` blocks have it of both."""
        row = FIGURES[figure]
        pairs, slacks, disturbed, lacking = [], [], 0, 0
        got: set[tuple[str, str | None]] = set()
        views: list[tuple[RunView, RunView]] = []
        for block in sorted({*self._runs[first]} & {*self._runs[other]}):
            a, b = self._runs[first][block], self._runs[other][block]
            if not _on_one_machine(a, b):
                continue
            one, two = _known(row, a), _known(row, b)
            methods = {_got(row, a), _got(row, b)}
            if one is None or two is None or len(methods) > 1:  # two energies of unlike things have no ratio
                lacking += 1
                continue
            got |= methods
            pairs.append(Pair(two.ln_value - one.ln_value, _span(a) < _span(b)))
            slacks.append((one.above + two.below, one.below + two.above))
            disturbed += a.bounds_only or b.bounds_only
            views.append((a, b))
        change = change_of(pairs)
        if change is None:
            return None
        low, high = change.interval(comparisons)
        below, above = np.mean(slacks, axis=0)
        low, high = low - float(below), high + float(above)
        return PairedRatio(
            math.exp(change.size), (math.exp(low), math.exp(high)), len(pairs), disturbed,
            None if lacking or len(got) > 1 else _verdict(row, views, low, high), change.probability, lacking,
        )  # fmt: skip

    def _leave_out(self, counts: Any, why: str) -> None:
        before = {block for runs in self._runs.values() for block in runs}
        without: dict[str, int] = {}
        for runs in self._runs.values():
            for block in [block for block, view in runs.items() if not counts(view)]:
                name = configuration_label(runs.pop(block))
                without[name] = without.get(name, 0) + 1
        lost = {block for block in before if not all(block in runs for runs in self._runs.values())}
        if lost:
            whose = "; ".join(f"{count} of {name}" for name, count in without.items())
            self.left_out.append(f"{len(lost)} of {len(before)} blocks are not whole: {why} ({whose}).")

    def _leave_out_overlapping(self) -> None:
        """A block in which another block's runs were measured was not measured in turns."""
        spans: dict[int, tuple[int, int]] = {}
        for runs in self._runs.values():
            for block, view in runs.items():
                start, end = _span(view)
                low, high = spans.get(block, (start, end))
                spans[block] = (min(low, start), max(high, end))
        order = sorted(spans.items(), key=lambda item: item[1])
        mixed = set()
        for (one, (_, end)), (next_one, (start, _)) in pairwise(order):
            if start < end:
                mixed |= {one, next_one}
        for runs in self._runs.values():
            for block in mixed & {*runs}:
                del runs[block]
        if mixed:
            self.left_out.append(f"{len(mixed)} blocks were not measured in turns and count for nothing.")


@dataclass(frozen=True)
class _Known:
    """The logarithm of a run's figure, and how far below and above it the truth may lie in every repetition."""

    ln_value: float
    below: float = 0.0
    above: float = 0.0


def _known(row: Figure, view: RunView) -> _Known | None:
    value = view.value(row)
    if value is None or value <= 0:
        return None
    if row.bracketed:
        bounds = row.interval_in(view.summary)
        if bounds is None or bounds[0] <= 0:
            return None
        return _Known(math.log(value), math.log(value / bounds[0]), math.log(bounds[1] / value))
    edges = EDGES_RATIO / 2 if row.counted else 0.0
    return _Known(math.log(value), edges, edges)


def _verdict(row: Figure, views: Sequence[tuple[RunView, RunView]], low: float, high: float) -> str | None:
    first, other = (view.result for view in views[-1])
    assert first is not None and other is not None
    searched = any(is_search(offered(r.model_dump(include={"load"})["load"])) for r in (first, other))
    if of_another(first, other) or unlike(row, first, other) or (searched and not row.rate_free):
        return None
    if row.name == cpu_checks.CPU:
        unlike_cpu = [cpu_checks.differ(a.summary, b.summary) for a, b in views]
        if sum(text is not None for text in unlike_cpu) > len(views) / 2:
            return None
    if low <= 0 <= high:
        return NONE_SHOWN
    return None if row.better is None else "better" if (low > 0) == row.higher else "worse"


def configuration_label(view: RunView) -> str:
    """What a configuration is called: as its runs, without the number that tells these apart."""
    return view.label.removesuffix(f" ({view.run_id.rpartition('.')[2]})")


def _usable(view: RunView) -> bool:
    return view.verdict is not None and (view.valid or view.bounds_only)


def _block(view: RunView) -> int:
    return int(view.job.get("block") or 0)


def _invocation(view: RunView) -> str:
    return view.run_id.rpartition(".")[0]


def _asked(view: RunView) -> str:
    """All that was asked of it, equal for the blocks of one configuration."""
    return repr(sorted((name, value) for name, value in view.job.items() if name not in LABELS))


def _on_one_machine(one: RunView, two: RunView) -> bool:
    """Servers on another number of devices too, where these are alike, or what one machine was divided into."""
    if _machine(one) != _machine(two):
        return False
    (few, first), (many, other) = sorted((_devices(one), _devices(two)), key=lambda devices: devices[0])
    if few == many or first is None or other is None:  # the whole name: of several it says what else they had
        return few == many and first == other and _name(one) == _name(two)
    divided = other == int(first) // many * many or first == int(other) // few * few
    return divided or first / few == other / many


def _devices(view: RunView) -> tuple[int, float | None]:
    """How many, and their cores together."""
    assert view.result is not None
    device = view.result.device
    return int((device.model_extra or {}).get("count") or 1), device.cores


def _machine(view: RunView) -> tuple[Any, ...]:
    assert view.result is not None
    device, environment = view.result.device, view.result.environment
    # Times of several hosts (``brick_jobs.measured_on``) have each one's environment.
    served = sorted(str(value_at(host, "system.host")) for host in environment.get("hosts") or [environment])
    # A load from another host is measured by that one, through its link.
    client = view.result.extensions.get("client_host")
    clients = [host.get("host") for host in all_of(client)] if client else []
    told = device.model_extra or {}
    # What is called ``2 x NAME`` has its product's name beside it, but for results of before that was stored.
    product = told.get("product") or (device.name or "").removeprefix(f"{told.get('count')} x ")
    others = [one["host"] for one in told.get("devices") or () if one.get("host")]
    return product, *served, *clients, *others


def _got(row: Figure, view: RunView) -> tuple[str, str | None]:
    """How an energy was got, and with which part of a machine whose idle power is in it; of other figures all alike."""
    return got_by(row, view.summary), part_of_machine({"summary": view.summary}) if row.energy_based else None


def _name(view: RunView) -> str | None:
    assert view.result is not None
    return view.result.device.name


def _span(view: RunView) -> tuple[int, int]:
    """When its load was measured, ns of Unix time."""
    assert view.result is not None
    window = view.result.extensions["measured_window"]
    offset = window.get("epoch_offset_ns", 0)
    return window["start_ns"] + offset, window["end_ns"] + offset
