"""What others' use of the CPU did to the requests: how long server and sender waited for a core, in time.

Others may use much of a machine and take nothing (they run where and when nobody else wants to), or little and spoil a
tail. So their share of the CPU says nothing; what a request met says it, beside the latency that is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.monitors.records import Recording, Series

#: Whose CPU time belongs to a wait, by ticks of 10 ms: what ran within half of this before and after it, s.
_AROUND_S = 1.0
#: The groups whose threads a request needs, and the one that it needs where there is one.
_GROUPS, _BETWEEN = ("server", "sender"), "balancer"
#: Which of them is on a host that has only one.
_ON_SIDE = {"server": "server", "client": "sender"}


@dataclass(frozen=True)
class Waits:
    """Waits for a core that others caused: in each step of the recording its end, its length and the wait within, s."""

    end_ns: NDArray[np.int64]
    step_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]

    def met_s(
        self, sent_ns: NDArray[np.int64], shares: Sequence[float], done_ns: NDArray[np.int64] | None = None
    ) -> list[float]:
        """For each of ``shares`` the wait that at least so many of the requests met, s; 0.0 where fewer met any.

        Of a wait of w in a step of length d it is not known when it was, nor whether it was one. As one it is met by
        w/d of the requests that were sent in the step, and by those that were under way when it began: of T
        request-seconds in the step T/(d + w), for the wait itself adds to T. One that lived longer than its step
        (``done_ns``) met what was waited in all of its life.

        Many short waits look like one long wait, and no answer is late by that. So no share is told to have waited more
        than waits can have moved its percentile: undisturbed it is no less than the median without what the half
        waited, and that no less than the least work of all, a life without its waits. What long ones met is certain.
        """
        if not len(sent_ns) or not len(self.end_ns):
            return [0.0] * len(shares)
        step = np.searchsorted(self.end_ns, sent_ns)
        known = step < len(self.end_ns)
        ended_ns = sent_ns if done_ns is None else done_ns
        long = known & (ended_ns - sent_ns > self._lengths_ns(step))
        short = known & ~long
        sent = np.bincount(step[short], minlength=len(self.end_ns)).astype(np.float64)
        under_way_s = self._under_way_s(sent_ns[short], ended_ns[short], step[short])
        met = sent * np.minimum(1.0, self.wait_s / self.step_s) + under_way_s / (self.step_s + self.wait_s)
        within_s = self.within_s(sent_ns, ended_ns)
        waits_s = np.concatenate((self.wait_s, within_s[long]))
        longest_first = np.argsort(-waits_s, kind="stable")
        reached = np.cumsum(np.concatenate((met, np.ones(int(long.sum()))))[longest_first])

        def met_by(share: float) -> float:
            enough = reached >= share * len(sent_ns)
            return float(waits_s[longest_first][np.argmax(enough)]) if enough.any() else 0.0

        if done_ns is None:
            return [met_by(share) for share in shares]
        lives_s = (done_ns - sent_ns) / 1e9
        answered = lives_s > 0
        work_s = (lives_s - within_s)[answered]
        median_s = _reached_by(lives_s, 0.5)
        half_s = min(met_by(0.5), max(0.0, median_s - float(work_s.min(initial=np.inf))))
        lived_through_s = np.where(long, within_s, 0.0)

        def most_s(share: float) -> float:
            moved_s = _reached_by(lives_s, share) - (median_s - half_s)
            return max(moved_s, _reached_by(lived_through_s, share))

        return [min(met_by(share), most_s(share)) for share in shares]

    def _under_way_s(
        self, sent_ns: NDArray[np.int64], done_ns: NDArray[np.int64], step: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """The request-seconds in each step, of requests that end in the step of their sending or the next."""
        here_ns = np.minimum(done_ns, self.end_ns[step]) - sent_ns
        after_ns = np.maximum(done_ns - self.end_ns[step], 0)
        steps = len(self.end_ns)
        sums_ns = np.bincount(step, here_ns, steps) + np.bincount(step + 1, after_ns, steps + 1)[:steps]
        return sums_ns / 1e9

    def within_s(self, start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What was waited from each start to its end, s: never more than the time between them.

        A wait shows whole in the step in which it ended, so one that is longer than the step began before it.
        """
        if not len(self.end_ns):
            return np.zeros(len(start_ns))
        at_ns = np.concatenate(([self.end_ns[0] - round(self.step_s[0] * 1e9)], self.end_ns))
        ended_ns = np.concatenate(([0], np.cumsum(np.rint(self.wait_s * 1e9).astype(np.int64))))
        # Of the waits that ended by a later moment only the time since then was still to come.
        waited_ns = at_ns + np.maximum.accumulate((ended_ns - at_ns)[::-1])[::-1]
        within: NDArray[np.float64] = np.interp(end_ns, at_ns, waited_ns)
        within -= np.interp(start_ns, at_ns, waited_ns)
        return within / 1e9

    def _lengths_ns(self, step: NDArray[np.intp]) -> NDArray[np.float64]:
        return self.step_s[np.minimum(step, len(self.step_s) - 1)] * 1e9


def _reached_by(values: NDArray[np.float64], share: float) -> float:
    """What at least that share of the values reaches."""
    rank = len(values) - max(1, math.ceil(round(share * len(values), 6)))
    return float(np.partition(values, rank)[rank])


def foreign_waits(recording: Recording, window: Window) -> Waits | None:
    """The waits until the window's requests were answered, as far as others caused them.

    None where they were not recorded in the window.
    """
    longest = longest_waits(recording, window.start_ns, window.end_ns)
    answered_ns = int(window.done_ns[window.answered].max(initial=window.end_ns))
    return _of_others(recording, longest, window.start_ns, window.end_ns, answered_ns)


def waits_between(recording: Recording, start_ns: int, end_ns: int) -> Waits | None:
    """The waits in the steps that end within (start, end], as far as others caused them; None where none were recorded.

    While a thread waits, its core runs something else, server and sender among it: of a wait, others' share of the CPU
    that was used meanwhile counts, or of the second around it where the kernel does not tell exactly what others used.
    """
    return _of_others(recording, longest_waits(recording, start_ns, end_ns), start_ns, end_ns)


@dataclass(frozen=True)
class SenderWaits:
    """What the sender waited for a core behind others. ``longest``: of one thread in each step. ``each``: of a thread
    whenever it wanted a core, the mean over the step.
    """

    longest: Waits
    each: Waits

    def typical_s(self, sent_ns: NDArray[np.int64]) -> float:
        """The mean wait for a core in the step in which the median request was sent, s."""
        step = np.searchsorted(self.each.end_ns, sent_ns)
        inside = step[step < len(self.each.end_ns)]
        return float(np.median(self.each.wait_s[inside])) if len(inside) else 0.0

    def held_ratio(self, least_s: float) -> float:
        """The share of the time in which one thread waited for so long at least, by the longest wait of each step."""
        waits_s = self.longest.wait_s
        return float(waits_s[waits_s >= least_s].sum() / self.longest.step_s.sum())


def sender_waits(recording: Recording, window: Window) -> SenderWaits | None:
    """Those of the measured window; None where they were not recorded over the whole of it."""
    series = [recording.get("wait", f"sender_{name}") for name in ("longest_s", "s_total", "runs_total")]
    if any(one is None or not one.covers(window.start_ns, window.end_ns) for one in series):
        return None
    longest, total, runs = (one for one in series if one is not None)
    waited_s = np.diff(total.values, prepend=total.values[0])
    count = np.diff(np.interp(total.t_ns, runs.t_ns, runs.values), prepend=runs.values[0])
    each = Series(total.t_ns, waited_s / np.maximum(count, 1.0))
    parts = [_of_others(recording, one, window.start_ns, window.end_ns) for one in (longest, each)]
    return SenderWaits(parts[0], parts[1]) if parts[0] is not None and parts[1] is not None else None


def _of_others(
    recording: Recording, steps: Series | None, start_ns: int, end_ns: int, until_ns: int = 0
) -> Waits | None:
    """Of the steps that end in (start, end], or later until ``until_ns`` as far as they were recorded."""
    used = [recording.get("host", "cpu_busy_s_total"), recording.get("server", "cpu_s_total")]
    used.append(recording.get("client", "cpu_s_total"))
    if (between := recording.get(_BETWEEN, "cpu_s_total")) is not None:
        used.append(between)
    if any(one is None or not one.reaches(start_ns, end_ns) for one in used):
        return None
    if steps is None:
        return None
    ends_ns = steps.t_ns
    inside = np.flatnonzero((ends_ns[1:] > start_ns) & (ends_ns[1:] <= max(end_ns, until_ns))) + 1
    if not len(inside):
        return None
    wait_s = steps.values[inside]
    exact = recording.get("wait", "foreign_s_total")
    if exact is not None and exact.reaches(start_ns, end_ns):
        # To the nanosecond: what others and the run's own used from the begin of the wait to the end of its step.
        before, after = ends_ns[inside - 1] - (wait_s * 1e9).astype(np.int64), ends_ns[inside]
        others_s = _grown(exact, before, after)
        all_s = others_s + sum(_grown(one, before, after) for one in used[1:] if one)
    else:
        half_ns = int(_AROUND_S * 5e8)
        before, after = ends_ns[inside] - half_ns, ends_ns[inside] + half_ns
        all_s, *own_s = (_grown(one, before, after) for one in used if one)
        others_s = all_s - sum(own_s)
    foreign = np.clip(others_s / np.maximum(all_s, 1e-9), 0.0, 1.0)
    step_s = np.maximum((ends_ns[inside] - ends_ns[inside - 1]) / 1e9, 1e-6)
    return Waits(ends_ns[inside], step_s, wait_s * foreign)


def _grown(series: Series, before_ns: NDArray[np.int64], after_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    grown: NDArray[np.float64] = np.interp(after_ns, series.t_ns, series.values)
    grown -= np.interp(before_ns, series.t_ns, series.values)
    return grown


def longest_waits(recording: Recording, start_ns: int, end_ns: int) -> Series | None:
    """The longest wait of a single thread in each step, s: those of several at once delay a request only once.

    Where the kernel keeps no threads' waits (``schedstat``), the time in which anything waited: of the server's cgroup
    where that is known, else of the machine (PSI). It is more than a request meets. None where there is neither over
    the whole of that time: what a request waited while nobody looked is not nothing.
    """

    def whole(metric: str) -> Series | None:
        series = recording.get("wait", metric)
        return series if series is not None and series.covers(start_ns, end_ns) else None

    side = recording.about.get("side")
    # Of two hosts each has one of both.
    if side is not None and (alone := whole(f"{_ON_SIDE[side]}_longest_s")) is not None:
        return alone
    server, sender = (whole(f"{group}_longest_s") for group in _GROUPS)
    if server is not None and sender is not None:
        between = whole(f"{_BETWEEN}_longest_s")
        if between is None and recording.get("wait", f"{_BETWEEN}_longest_s") is not None:
            return None  # what requests waited there is not nothing
        longest = server.values
        for other in (sender, *([between] if between is not None else [])):
            longest = np.maximum(longest, np.interp(server.t_ns, other.t_ns, other.values))
        return Series(server.t_ns, longest)
    for metric in ("server_pressure_s_total", "pressure_s_total"):
        if (pressure := whole(metric)) is not None:
            return Series(pressure.t_ns, np.diff(pressure.values, prepend=pressure.values[0]))
    return None
