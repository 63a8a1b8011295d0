"""What a server of ours tells of traced requests: moments, kept in memory and written once, when it ends.

A span written one by one while requests are answered would cost more than what it measures.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.monitors.schedstat import parse as parse_schedstat
from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.traceparent import parse_all
from inferbench_tasks.servers.engines.base import Engine
from inferbench_tasks.servers.scheduler import Execution
from inferbench_tasks.servers.sources.base import LayerSource
from inferbench_tasks.timing.epoch import epoch_offset

#: Kept of one server's life; what comes after is counted only.
MOST_ROWS = 200_000


class Recorder:
    """Moments on CLOCK_MONOTONIC in ns; ``write`` tells how far Unix time is from it, at the beginning and the end."""

    def __init__(self, path: Path, *, framework: bool) -> None:
        self._path = path
        #: Whether the runs of the framework are recorded too, with what their threads used.
        self.framework = framework
        self._requests: list[dict[str, Any]] = []
        self._runs: list[dict[str, Any]] = []
        self._lost = 0
        #: Requests with a ``traceparent`` that is none, and those whose ``tracestate`` beside a good one is none.
        self._ignored = self._ignored_states = 0
        self._offsets = [epoch_offset()]

    def request(
        self,
        traceparents: Sequence[bytes],
        moments: tuple[int | None, int, int, int, int],
        execution: Execution,
        tracestates: Sequence[bytes] = (),
    ) -> None:
        """A request that was answered: started, received, decoded, resumed, encoded; the execution knows the moments
        between. Kept if its headers ``traceparents`` ask for it; one that is none is counted (W3C: to be ignored), and
        so are ``tracestates`` that are none, without which the context stands.

        Started is None where a library reads requests before we know of them.
        """
        if not traceparents:
            return
        context = parse_all(traceparents, tracestates)
        if context is None:
            self._ignored += 1
            return
        self._ignored_states += context.state_ignored
        if not context.sampled:
            return
        if len(self._requests) >= MOST_ROWS:
            self._lost += 1
            return
        started_ns, received_ns, decoded_ns, resumed_ns, encoded_ns = moments
        taken_ns = execution.enqueued_ns + execution.queue_ns
        joined_ns = taken_ns + execution.input_ns
        inferred_ns = joined_ns + execution.infer_ns
        self._requests.append(
            {
                "trace_id": context.trace_id,
                "parent_id": context.span_id,
                **({"tracestate": context.state} if context.state else {}),
                "started_ns": received_ns if started_ns is None else started_ns,
                "unseen": ["read"] if started_ns is None else [],
                "received_ns": received_ns,
                "decoded_ns": decoded_ns,
                "enqueued_ns": execution.enqueued_ns,
                "taken_ns": taken_ns,
                "joined_ns": joined_ns,
                "inferred_ns": inferred_ns,
                "split_ns": inferred_ns + execution.output_ns,
                "resumed_ns": resumed_ns,
                "encoded_ns": encoded_ns,
                "rows": execution.rows,
            }
        )

    def run(self, row: dict[str, Any]) -> None:
        """One run of the framework."""
        if len(self._runs) >= MOST_ROWS:
            self._lost += 1
        else:
            self._runs.append(row)

    def write(self, sources: Sequence[LayerSource]) -> None:
        """Everything as one JSON file, whole or not at all, with what the sources tell since the first request."""
        self._offsets.append(epoch_offset())
        since_ns = self._requests[0]["started_ns"] if self._requests else 0
        layers = [layer for source in sources for layer in source.spans(since_ns)]
        document = {
            "epoch_offsets": self._offsets,
            "requests": self._requests,
            "runs": self._runs,
            "layers": layers,
            "ignored": self._ignored,
            "ignored_states": self._ignored_states,
            "lost": self._lost + sum(source.lost for source in sources),
        }
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(document))
        partial.replace(self._path)


class TracedEngine:
    """An engine whose runs are recorded, with the CPU time, waits, switches and faults of the thread that asks it.

    ``source``: what tells of the layers; it begins before and ends after what is timed.
    """

    def __init__(self, engine: Engine, recorder: Recorder, source: LayerSource | None) -> None:
        self._engine = engine
        self._recorder = recorder
        self._source = source
        #: Each instance has a thread of its own, which alone asks its engine; known from its first run on.
        self._waits: _Waits | None = None

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """As the engine does."""
        if self._waits is None:
            self._waits = _Waits(threading.get_native_id())
        if self._source is not None:
            self._source.start()
        used, waited_ns = resource.getrusage(resource.RUSAGE_THREAD), self._waits.ns()
        cpu_ns = time.thread_time_ns()
        start_ns = time.monotonic_ns()
        outputs = self._engine.run(inputs)
        end_ns = time.monotonic_ns()
        now = resource.getrusage(resource.RUSAGE_THREAD)
        cpu_ns = time.thread_time_ns() - cpu_ns
        waits_ns = self._waits.ns()
        if self._source is not None:
            self._source.stop(start_ns, end_ns)
        self._recorder.run(
            {
                "start_ns": start_ns,
                "end_ns": end_ns,
                "thread": self._waits.thread,
                "cpu_ns": cpu_ns,
                "wait_for_core_ns": None if waited_ns is None or waits_ns is None else waits_ns - waited_ns,
                "switches_voluntary": now.ru_nvcsw - used.ru_nvcsw,
                "switches_involuntary": now.ru_nivcsw - used.ru_nivcsw,
                "faults_minor": now.ru_minflt - used.ru_minflt,
                "faults_major": now.ru_majflt - used.ru_majflt,
            }
        )
        return outputs


class _Waits:
    """How long a thread of this process has waited for a core; its file stays open, for opening it takes longer."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        try:
            self._file = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1

    def ns(self) -> int | None:
        """So far; None where the kernel does not tell."""
        if self._file < 0:
            return None
        try:
            return parse_schedstat(os.pread(self._file, 128, 0)).waited_ns
        except (OSError, ValueError):
            return None
