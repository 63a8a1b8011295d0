"""A load from its plan to its records and its certificate."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.loadgen.certificate import Certificate, certify
from inferbench_tasks.loadgen.controller import Applied, Controller
from inferbench_tasks.loadgen.evidence import Check
from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.memory import give_freed_memory_back
from inferbench_tasks.loadgen.merging import merge
from inferbench_tasks.loadgen.mlperf import MlperfVerdict, forget, read_verdict
from inferbench_tasks.loadgen.mlperf_accuracy import read_accuracy
from inferbench_tasks.loadgen.mlperf_schedule import reschedule
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.prepare import promised
from inferbench_tasks.loadgen.records import column, is_ok, labelled, read_samples
from inferbench_tasks.loadgen.session_promise import COLUMNS, with_turns
from inferbench_tasks.loadgen.spool import Spool
from inferbench_tasks.loadgen.stability import NOT_KNOWN, OVERLOAD
from inferbench_tasks.loadgen.steady import steady_state_of
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_checks import JUDGED, Stamps, cached_check, cut_by_window, stamp_checks
from inferbench_tasks.loadgen.token_counts import TokenCounts
from inferbench_tasks.loadgen.token_records import read_table
from inferbench_tasks.loadgen.token_streams import Judged, judge_streams
from inferbench_tasks.loadgen.window import WINDOW_COLUMNS

#: What a steady window is called.
STEADY = "steady"
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
    #: Whether the measured window was steady, in words.
    steady: str = "not judged"
    #: What MLPerf LoadGen said, where it made the load.
    mlperf: MlperfVerdict | None = None
    #: When MLPerf LoadGen was to issue its queries, see ``mlperf_schedule``.
    schedule_ns: NDArray[np.int64] | None = field(default=None, repr=False)
    #: The records of streams of tokens, where that is what the answers are.
    streams: Judged | None = None
    #: The end of the window by which the load is judged, where it is another than that of its figures.
    judged_end_ns: int | None = None
    #: How far the throughput moved over the load, see ``SteadyState``; None where nobody can tell.
    throughput_change_ratio: float | None = None

    def certificate(
        self,
        plan: LoadPlan,
        thresholds: Thresholds | None = None,
        window_ns: tuple[int, int] | None = None,
    ) -> Certificate:
        """The judgement on the load that was applied; ``window_ns``: on a part of it, instead of its own window."""
        table = self.table(for_figures=True)
        start_ns, end_ns = window_ns or (self.measure_start_ns, self.judged_end_ns or self.measure_end_ns)
        if window_ns is not None:
            table = labelled(table, start_ns, end_ns)
        promise = promised(plan, self.applied.start_ns, start_ns, end_ns, self.schedule_ns)
        if plan.turn_step:
            load_end_ns = self.applied.start_ns + max(segment.end_ns for segment in plan.segments)
            records = read_samples(self.samples_path, COLUMNS)
            promise = with_turns(promise, plan, records, load_end_ns, (start_ns, end_ns))
        certificate = certify(
            table,
            promise,
            self.applied.usages,
            measure_start_ns=start_ns,
            measure_end_ns=end_ns,
            thresholds=thresholds,
        )
        if self.mlperf is not None:
            figures = certificate.figures
            for check in loadgen_checks(self.mlperf, figures["requests"], sum(figures["errors"].values())):
                certificate = certificate.and_check(check)
        if self.streams is not None:
            stamps = Stamps.of(self.streams.chunks_path, start_ns, end_ns)
            certificate.figures.update(stamps.figures())
            for check in stamp_checks(stamps, self.applied.usages, certificate.thresholds, plan.ttft_ms):
                certificate = certificate.and_check(check)
            records = read_samples(self.samples_path, COLUMNS)
            if plan.vocabulary is not None:
                counts = TokenCounts.of(plan, records, self.streams.streams_path)
                certificate.figures.update(counts.figures())
                for check in counts.checks(certificate.thresholds):
                    certificate = certificate.and_check(check)
            streams, _ = read_table(self.streams.streams_path, JUDGED)
            certificate.figures.update(cut_by_window(records, streams, start_ns, end_ns))
            if plan.cacheable_tokens is not None:
                check = cached_check(records, streams, plan.cacheable_tokens, plan.turn_step)
                certificate = certificate.and_check(check)
        certificate.figures.update(self.stability_figures())
        return self.judge_stability(certificate, plan)

    def stability_figures(self) -> dict[str, str | float | None]:
        """What is known of the load's steadiness, by its names in the certificate."""
        return {"steady_state": self.steady, "throughput_change_ratio": self.throughput_change_ratio}

    def judge_stability(self, certificate: Certificate, plan: LoadPlan) -> Certificate:
        """Latencies that depend on how long the load lasted are withheld, unless overload was asked for.

        A load that changes with time by itself, and one whose window is MLPerf's, only has the warning.
        """
        if plan.expect_overload:
            certificate.figures["expect"] = OVERLOAD
            certificate.warnings.append(f"overload was asked for (load.expect: {OVERLOAD})")
            return certificate
        reason = self.depends_on_length(certificate, plan)
        return certificate if reason is None else certificate.without_latencies(reason)

    def depends_on_length(self, certificate: Certificate, plan: LoadPlan) -> str | None:
        """Why the load's times depend on how long it lasted; None where they don't, or where that is meant."""
        if plan.expect_overload or plan.unsteady or plan.mlperf:
            return None
        reasons = [certificate.figures["growing_backlog"], self.unstable]
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def unstable(self) -> str | None:
        """Why the load was not steady, in words; None where it was, or where nobody judged."""
        judged = not self.steady.startswith("not judged")
        return self.steady if judged and self.steady != STEADY else None

    def table(self, *, for_figures: bool = False) -> pa.Table:
        """All records; ``for_figures``: only the columns that figures are made from."""
        table_columns = WINDOW_COLUMNS if for_figures else None
        return read_samples(self.samples_path, table_columns)


def apply_load(
    plan: LoadPlan,
    samples_path: Path,
    *,
    progress: Callable[[float, float, Snapshot | None], None] = lambda elapsed_s, total_s, snapshot: None,
    cancelled: Callable[[], bool] = lambda: False,
    applying: Callable[[Controller], Applied] = Controller.apply,
) -> Outcome:
    """Apply a load and keep its records, whatever became of it (see ``Outcome.applied``).

    ``applying``: who has the senders begin, and adds what those of other hosts recorded.
    """
    give_freed_memory_back()
    for index in range(plan.shards):
        plan.spool_path(index).unlink(missing_ok=True)
    if plan.mlperf:
        forget(Path(plan.folder))
    applied = applying(Controller(plan, progress=progress, cancelled=cancelled))
    streams = None
    if plan.stream is not None:
        streams = judge_streams(plan, applied.spools, samples_path)
        applied = replace(applied, explanations={**applied.explanations, **streams.explanations})
    start_ns = applied.start_ns + plan.measure_start_ns
    end_ns = _end_ns(plan, applied, start_ns)
    whole = not (applied.stopped_early or applied.cancelled or applied.problem)
    verdict = schedule_ns = None
    if plan.mlperf:
        schedule_ns = reschedule(plan, applied.spools)
        start_ns, end_ns = issued_window(applied, start_ns, end_ns)
        if whole:
            end_ns = max(end_ns, int(schedule_ns.max(initial=0)) + 1)
        if whole and plan.mlperf.accuracy:  # it gives no verdict
            if read_accuracy(Path(plan.folder)) is None:
                applied = replace(applied, problem="MLPerf's LoadGen ended without its log of all answers")
        elif whole:
            verdict = read_verdict(Path(plan.folder))
            if verdict is None:
                applied = replace(applied, problem="MLPerf's LoadGen ended without a verdict")
    start_ns, steady, warnings, change_ratio = _steady_start(plan, applied, start_ns, end_ns, whole)
    if verdict is not None:
        warnings = (*warnings, verdict.words())
    epoch_offset_ns = time.time_ns() - time.monotonic_ns()
    judged_end_ns = None
    requests = merge(applied.spools, samples_path, measure_window_ns=(start_ns, end_ns))
    if not plan.segments[-1].paced and not applied.stopped_early:
        # All requests at once: the load ends with the last answer, which only the records know.
        end_ns = max(start_ns + 1, min(end_ns, last_answer_ns(read_samples(samples_path, WINDOW_COLUMNS))))
    elif applied.quota_ns >= 0 and not applied.stopped_early:
        judged_end_ns = end_ns
        end_ns = with_an_answer(read_samples(samples_path, WINDOW_COLUMNS), start_ns, end_ns)
    for path in applied.spools:
        path.unlink()
    return Outcome(
        samples_path,
        start_ns,
        end_ns,
        epoch_offset_ns,
        requests,
        applied,
        warnings,
        steady,
        verdict,
        schedule_ns,
        streams,
        judged_end_ns,
        change_ratio,
    )


def last_answer_ns(table: pa.Table) -> int:
    """When the last good answer came; without any, when the last request failed. -1 without records.

    A request that nobody answers fails at its timeout: the server's work ended long before.
    """
    done_ns = column(table, "done_ns")
    good_ns = done_ns[is_ok(table)]
    return int((good_ns if len(good_ns) else done_ns).max(initial=-1))


def with_an_answer(table: pa.Table, start_ns: int, end_ns: int) -> int:
    """The end of a window that its number of requests ended, at the last one's send; the last answer, if none came by.

    So few requests (one, or one for each user) left at one moment: per second of no time at all they are billions. They
    are judged by the window that ended with the sends, in which nothing came.
    """
    done_ns = column(table, "done_ns")[is_ok(table)]
    within = (done_ns > start_ns) & (done_ns <= end_ns)
    return end_ns if within.any() else max(end_ns, last_answer_ns(table))


def _end_ns(plan: LoadPlan, applied: Applied, start_ns: int) -> int:
    end_ns = applied.end_ns
    if applied.quota_ns >= 0:
        end_ns = min(end_ns, applied.quota_ns + 1)
    return max(end_ns, start_ns + 1)


def issued_window(applied: Applied, start_ns: int, end_ns: int) -> tuple[int, int]:
    """MLPerf LoadGen's own window: from the first query that it issued to the last good answer."""
    first_ns, last_ns = [], []
    for path in applied.spools:
        spool = Spool(path)
        for piece in spool.pieces():
            rows = piece[piece["intended_ns"] >= start_ns]
            if len(rows):
                first_ns.append(int(rows["intended_ns"].min()))
                good = rows[rows["status"] == spool.statuses.index(OK)]
                last_ns.append(max(int(rows["intended_ns"].max()) + 1, int(good["done_ns"].max(initial=-1))))
    if not first_ns:
        return start_ns, end_ns
    return min(first_ns), max(last_ns)


def loadgen_checks(verdict: MlperfVerdict, recorded: int, failed: int) -> tuple[Check, ...]:
    """What LoadGen says holds against a run: its own verdict, failures that it took for answers, another count."""
    return (
        _all_recorded(verdict, recorded),
        Check.at_most(
            "loadgen_verdict", float(not verdict.valid), 0, "",
            f"MLPerf LoadGen's own verdict is INVALID: {', '.join(verdict.reasons)}",
        ),
        Check.at_most(
            "loadgen_failures", failed, 0, "requests",
            f"{failed} of {recorded} requests failed, which LoadGen can't be told: its figures count them as answers",
        ),
    )  # fmt: skip


def _all_recorded(verdict: MlperfVerdict, recorded: int) -> Check:
    """As many requests were recorded as LoadGen counted; its offline scenario is one query."""
    count = verdict.queries * (verdict.samples_per_query if verdict.scenario == "Offline" else 1)
    missing = abs(count - recorded)
    return Check.at_most(
        "loadgen_count", missing, 0, "requests",
        f"MLPerf LoadGen counted {count} requests and {recorded} were recorded: {missing} differ",
    )  # fmt: skip


def _steady_start(
    plan: LoadPlan, applied: Applied, start_ns: int, end_ns: int, whole: bool
) -> tuple[int, str, tuple[str, ...], float | None]:
    """Where the measured window really begins, whether it was steady in words, warnings, and how far the throughput
    moved (``SteadyState.throughput_change_ratio``).

    It begins later than planned if the server had not warmed up by then; at least half of the planned
    window is kept; a server that is not steady even there is said to be so. A load that changes with time
    by itself (a ramp, a trace) is not asked for a steady state, and MLPerf LoadGen's window is its own.
    """
    least_s = _MIN_JUDGED_NS / 1e9
    if plan.unsteady:
        return start_ns, f"not judged: {plan.unsteady}", (), None
    if not whole:
        return start_ns, "not judged: the load did not come to its end", (), None
    if end_ns - applied.start_ns < _MIN_JUDGED_NS:
        return start_ns, f"not judged: that takes {least_s:g} s of load, the warm-up included", (), None
    steady = steady_state_of(applied.spools, start_ns=applied.start_ns, end_ns=end_ns)
    if not steady.judged:
        # Users who wait for their answers pile up no backlog; what an open loop's latencies depend on is not known.
        closed = plan.segments[-1].kind == "closed"
        word = "not judged" if closed else NOT_KNOWN
        text = f"nobody can tell whether the load was steady: {steady.reason}"
        return start_ns, f"{word}: {steady.reason}; measure longer", (text,), None
    if steady.start_ns is None:
        warning = f"no steady state was found: {steady.reason}"
        return start_ns, f"not steady: {steady.reason}", (warning,), steady.throughput_change_ratio
    if steady.start_ns <= start_ns:
        return start_ns, STEADY, (), 0.0
    more_s = (steady.start_ns - start_ns) / 1e9
    latest_ns = start_ns + (end_ns - start_ns) // 2
    if steady.start_ns > latest_ns or plan.mlperf:
        late = f"steady only {more_s:.1f} s after the warm-up"
        return start_ns, late, (late + ("" if plan.mlperf else ", in less than half of the load"),), None
    words = f"the warm-up was too short: {more_s:.1f} s more were left out"
    return steady.start_ns, STEADY, (words,), 0.0
