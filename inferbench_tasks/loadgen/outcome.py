"""A load from its plan to its records and its certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from inferbench_tasks.loadgen.certificate import Certificate, certify
from inferbench_tasks.loadgen.controller import Applied, Controller
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import promised
from inferbench_tasks.loadgen.records import OK, column, read_samples
from inferbench_tasks.loadgen.spool import Spool, merge
from inferbench_tasks.loadgen.steady import find_steady_state
from inferbench_tasks.loadgen.thresholds import Thresholds

#: A shorter load is not asked whether it was steady: that takes 10 s at least.
_MIN_JUDGED_NS = 10_000_000_000


@dataclass(frozen=True)
class Outcome:
    """The records lie at ``samples_path``; the window is on CLOCK_MONOTONIC."""

    samples_path: Path
    measure_start_ns: int
    measure_end_ns: int
    epoch_offset_ns: int
    requests: int
    applied: Applied
    warnings: tuple[str, ...] = ()

    def certificate(self, plan: LoadPlan, thresholds: Thresholds | None = None) -> Certificate:
        """The judgement on the load that was applied."""
        return certify(
            read_samples(self.samples_path),
            promised(plan, self.applied.start_ns, self.measure_start_ns, self.measure_end_ns),
            self.applied.usages,
            measure_start_ns=self.measure_start_ns,
            measure_end_ns=self.measure_end_ns,
            thresholds=thresholds,
        )

    def table(self) -> pa.Table:
        """All records."""
        return read_samples(self.samples_path)


def apply_load(
    plan: LoadPlan,
    samples_path: Path,
    *,
    progress: Callable[[float, float, Snapshot | None], None] = lambda done, total, snapshot: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Apply a load and keep its records, whatever became of it (see ``Outcome.applied``)."""
    for index in range(plan.shards):
        plan.spool_path(index).unlink(missing_ok=True)
    applied = Controller(plan, progress=progress, cancelled=cancelled).apply()
    start_ns = applied.start_ns + plan.measure_start_ns
    end_ns = _end_ns(plan, applied, start_ns)
    warnings: tuple[str, ...] = ()
    if (
        plan.segments[-1].paced
        and not applied.stopped_early
        and not applied.cancelled
        and not applied.problem
    ):
        start_ns, warnings = _steady_start(applied, start_ns, end_ns)
    epoch_offset_ns = time.time_ns() - time.monotonic_ns()
    requests = merge(applied.spools, samples_path, measure_window_ns=(start_ns, end_ns))
    if not plan.segments[-1].paced and not applied.stopped_early:
        # All requests at once: the load ends with the last answer, which only the records know.
        done_ns = column(read_samples(samples_path, ["done_ns"]), "done_ns")
        end_ns = max(start_ns + 1, min(end_ns, int(done_ns.max(initial=-1))))
    for path in applied.spools:
        path.unlink()
    return Outcome(samples_path, start_ns, end_ns, epoch_offset_ns, requests, applied, warnings)


def _end_ns(plan: LoadPlan, applied: Applied, start_ns: int) -> int:
    end_ns = applied.end_ns
    if applied.quota_ns >= 0:
        end_ns = min(end_ns, applied.quota_ns + 1)
    return max(end_ns, start_ns + 1)


def _steady_start(applied: Applied, start_ns: int, end_ns: int) -> tuple[int, tuple[str, ...]]:
    """Where the measured window really begins: later than planned if the server had not warmed up by then.

    At least half of the planned window is kept; a server that is not steady even there is said to be so.
    """
    if end_ns - applied.start_ns < _MIN_JUDGED_NS:
        return start_ns, ()
    done, latency = [], []
    for path in applied.spools:
        spool = Spool(path)
        rows = spool.read()
        rows = rows[rows["status"] == spool.statuses.index(OK)]
        done.append(rows["done_ns"].astype(np.int64))
        latency.append((rows["done_ns"] - rows["intended_ns"]).astype(np.int64))
    found = find_steady_state(
        np.concatenate(done), np.concatenate(latency), start_ns=applied.start_ns, end_ns=end_ns
    )
    if found.start_ns is None:
        return start_ns, (f"no steady state was found: {found.reason}",)
    latest_ns = start_ns + (end_ns - start_ns) // 2
    if found.start_ns > latest_ns:
        late_s = (found.start_ns - start_ns) / 1e9
        return start_ns, (f"steady only {late_s:.1f} s after the warm-up, in less than half of the load",)
    if found.start_ns <= start_ns:
        return start_ns, ()
    more_s = (found.start_ns - start_ns) / 1e9
    return found.start_ns, (f"the warm-up was too short: {more_s:.1f} s more were left out",)
