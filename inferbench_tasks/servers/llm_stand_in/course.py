"""What has become of a stand-in with faults: what it has taken and answered, and what goes wrong because of it."""

from __future__ import annotations

import os
import signal

from inferbench_tasks.contracts.stand_in_faults import StandInFaults
from inferbench_tasks.servers.llm_stand_in.pace import Pace


class Course:
    """Of one server, from ``start_ns`` (CLOCK_MONOTONIC) on. Not threadsafe: it is of one event loop."""

    def __init__(self, faults: StandInFaults | None, start_ns: int) -> None:
        self._faults = faults or StandInFaults.model_construct()
        self._taken = 0
        self._answered = 0
        self._ready_ns = start_ns + int((self._faults.loading_s or 0.0) * 1e9)

    def loading(self, now_ns: int) -> bool:
        """Whether it answers 503 now."""
        return now_ns < self._ready_ns

    def next_pace(self, pace: Pace) -> Pace:
        """Count a request that is to be answered; ``pace`` with what is wrong with this answer."""
        self._taken += 1
        wrong = self._faults.answers
        if wrong is None or self._taken % wrong.every:
            return pace
        if wrong.kind == "stall":
            return pace.model_copy(update={"stall_ms": wrong.stall_ms})
        return pace.model_copy(update={"fault": wrong.kind})

    def answered(self, now_ns: int) -> None:
        """Count an answer whose last byte was handed to the kernel; may not return."""
        self._answered += 1
        if self._answered == self._faults.reloads_after_answers:
            self._ready_ns = now_ns + int((self._faults.loading_s or 0.0) * 1e9)
        if self._answered == self._faults.dies_after_answers:
            os.kill(os.getpid(), signal.SIGKILL)
