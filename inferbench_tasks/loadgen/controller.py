"""The senders' controller: starts their processes, starts them together, follows and ends them.

The senders are processes of their own, so that neither Airflow nor a terminal nor the reader of the
records disturbs their loops.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from inferbench_tasks import private
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.live import Live, Snapshot
from inferbench_tasks.loadgen.messages import Order, Report
from inferbench_tasks.loadgen.plan import LoadPlan

_POLL_S = 0.1
#: From the order to the first request; every sender must have read the order by then.
_START_AFTER_NS = 50_000_000
#: Building the requests and connecting.
_READY_TIMEOUT_S = 120.0
#: What a sender needs to end once everything it waits for has ended.
_END_GRACE_S = 10.0
#: A share of errors means nothing before so many requests have ended.
_MIN_JUDGED = 50


@dataclass(frozen=True)
class Applied:
    """A load that was applied, whole or in part. ``problem``: why it could not go on; None if it could.

    ``end_ns``: where it was stopped, if ``stopped_early`` or ``cancelled``; else the planned end.
    ``quota_ns``: when the first sender of a closed loop had sent all it was allowed; -1 if none had.
    """

    start_ns: int
    end_ns: int
    spools: tuple[Path, ...]
    usages: tuple[ShardUsage, ...]
    explanations: dict[str, str] = field(default_factory=dict)
    stopped_early: str | None = None
    cancelled: bool = False
    problem: str | None = None
    quota_ns: int = -1


def soon() -> int:
    """A start that all senders of this host will have read of by then."""
    return time.monotonic_ns() + _START_AFTER_NS


def ends_early(plan: LoadPlan, snapshot: Snapshot) -> str | None:
    """Why a load that has come so far is ended; None where it goes on."""
    limit = plan.max_error_ratio
    if snapshot.done >= _MIN_JUDGED and snapshot.errors > limit * snapshot.done:
        return (
            f"{snapshot.errors} of {snapshot.done} requests had failed "
            f"({snapshot.errors / snapshot.done:.0%}, load.max_error_ratio is {limit:g})"
        )
    if plan.max_backlog is not None and snapshot.in_flight > plan.max_backlog:
        return f"saturated: {snapshot.in_flight} requests were waiting for an answer, at most {plan.max_backlog} may"
    return None


def _alone(snapshot: Snapshot) -> Snapshot:
    return snapshot


class _Sender:
    """One shard's process, as the controller sees it."""

    def __init__(self, plan: LoadPlan, index: int, reports: queue.Queue[tuple[int, Report | None]]) -> None:
        self.index = index
        self.done: Report | None = None
        self.ready = False
        self.outstanding = 0
        self._log_path = plan.log_path(index)
        with open(self._log_path, "wb") as log_file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "inferbench_tasks.loadgen.shard", str(plan.path), str(index)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(reports,), daemon=True)
        self._reader.start()

    def _read(self, reports: queue.Queue[tuple[int, Report | None]]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                reports.put((self.index, Report.model_validate_json(line)))
            except ValidationError:
                continue  # a library that prints; it is no report
        reports.put((self.index, None))

    def order(self, order: Order) -> None:
        """Tell it; a dead one is noticed elsewhere."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(order.model_dump_json(exclude_defaults=True).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return

    def end(self) -> None:
        """Make sure that nothing is left of it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):  # it may be dead already, with an order unread
            self.process.stdin.close()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(2.0)
        self.process.stdout.close()

    def last_words(self) -> str:
        """How it ended, for a message."""
        code = self.process.poll()
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        text = self._log_path.read_text(errors="replace").strip()[-1500:]
        return f"The sender of shard {self.index} {how}" + (f":\n{text}" if text else "")


class Controller:
    """Starts the senders of one plan, watches them, and ends them."""

    def __init__(
        self,
        plan: LoadPlan,
        *,
        progress: Callable[[float, float, Snapshot | None], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._progress = progress
        self._cancelled = cancelled
        self._reports: queue.Queue[tuple[int, Report | None]] = queue.Queue()
        self._senders: list[_Sender] = []
        late = plan.segments[-1].paced and not plan.connections_asked
        self._live = Live([plan.spool_path(index) for index in plan.own], late=late)

    def apply(
        self, starts: Callable[[], int | None] = soon, whole: Callable[[Snapshot], Snapshot] = _alone
    ) -> Applied:
        """From the start to the last record. LoadError if the load could not even begin.

        ``starts`` is asked once all senders are ready: when they begin, on this host's CLOCK_MONOTONIC; None: not at
        all, for it was cancelled. ``whole``: from how these senders' part goes to how the load of all hosts does, by
        which it is ended early.
        """
        plan = self._plan
        Path(plan.folder).mkdir(parents=True, exist_ok=True)
        private.write(plan.path, plan.model_dump_json())  # a server's secret may be in it
        try:
            for index in plan.own:
                self._senders.append(_Sender(plan, index, self._reports))
            start_ns = starts() if self._wait_ready() else None
            if start_ns is None:
                return Applied(0, 0, (), (), cancelled=True)
            for sender in self._senders:
                sender.order(Order(start_ns=start_ns))
            return self._follow(start_ns, whole)
        finally:
            for sender in self._senders:
                sender.end()

    def _wait_ready(self) -> bool:
        """False if the user cancelled meanwhile."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not all(sender.ready for sender in self._senders):
            self._take_reports()
            for sender in self._senders:
                if sender.done is not None and sender.done.error:
                    raise LoadError(f"The load could not begin: {sender.done.error}")
                if sender.process.poll() is not None and not sender.ready:
                    raise LoadError(f"The load could not begin. {sender.last_words()}")
            if self._cancelled():
                return False
            if time.monotonic() > deadline:
                raise LoadError(
                    f"The load could not begin: its senders were not ready after {_READY_TIMEOUT_S:g} s"
                )
        return True

    def _follow(self, start_ns: int, whole: Callable[[Snapshot], Snapshot]) -> Applied:
        plan = self._plan
        planned_end_ns = start_ns + plan.measure_end_ns
        last_ns = start_ns + max(segment.end_ns for segment in plan.segments)
        deadline_ns = last_ns + plan.timeout_ns + int(_END_GRACE_S * 1e9)
        applied = Applied(start_ns, planned_end_ns, (), ())
        stopped = False
        while not all(sender.done for sender in self._senders):
            self._take_reports()
            now_ns = time.monotonic_ns()
            snapshot = replace(
                self._live.update(now_ns), in_flight=sum(sender.outstanding for sender in self._senders)
            )
            self._progress((now_ns - start_ns) / 1e9, (last_ns - start_ns) / 1e9, snapshot)
            if stopped:
                if now_ns > deadline_ns:
                    break
                continue
            dead = [s for s in self._senders if s.process.poll() is not None and not s.done]
            if dead:
                self._take_reports()  # its last word may have been on its way
                dead = [s for s in dead if not s.done]
            if dead:
                applied = replace(applied, problem=dead[0].last_words())
            elif reason := ends_early(plan, whole(snapshot)):
                applied = replace(applied, stopped_early=reason)
            elif self._cancelled():
                applied = replace(applied, cancelled=True)
            elif now_ns > deadline_ns:
                applied = replace(applied, problem="The senders did not come to an end")
            else:
                continue
            stopped = True
            applied = replace(applied, end_ns=min(now_ns, planned_end_ns))
            deadline_ns = now_ns + int(_END_GRACE_S * 1e9)
            for sender in self._senders:
                sender.order(Order(stop=True))
                if dead:
                    sender.done = sender.done or (Report(state="done") if sender in dead else None)
        finished = [sender.done for sender in self._senders if sender.done]
        error = next((report.error for report in finished if report.error), None)
        quotas = [report.quota_ns for report in finished if report.quota_ns >= 0]
        return replace(
            applied,
            spools=tuple(p for p in map(plan.spool_path, plan.own) if p.exists()),
            usages=tuple(report.usage for report in finished if report.usage),
            explanations={k: v for report in reversed(finished) for k, v in report.explanations.items()},
            quota_ns=min(quotas, default=-1),
            problem=applied.problem or error,
        )

    def _take_reports(self) -> None:
        """Everything that came, after waiting for a moment."""
        wait_s: float | None = _POLL_S
        while True:
            try:
                index, report = self._reports.get(timeout=wait_s) if wait_s else self._reports.get_nowait()
            except queue.Empty:
                return
            wait_s = None
            sender = self._senders[self._plan.own.index(index)]
            if report is None:
                continue
            if report.state == "ready":
                sender.ready = True
            elif report.state == "running":
                sender.outstanding = report.outstanding
            else:
                sender.done = report
                sender.outstanding = 0
