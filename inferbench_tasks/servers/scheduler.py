"""The dynamic batcher: requests wait in one queue, instances take compatible ones together."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.config import Batching
from inferbench_tasks.servers.engines.base import Engine
from inferbench_tasks.servers.statistics import Statistics

log = logging.getLogger(__name__)

#: More requests than this waiting means overload: they are refused instead of filling the memory.
MAX_WAITING = 8192


class Batch(NamedTuple):
    """What was executed together. ``number``: which of the scheduler's, from 0."""

    number: int
    requests: int
    rows: int


class Processed(NamedTuple):
    """What processors in the server did to a request: when, on CLOCK_MONOTONIC, its wait for their thread included,
    and by kind how long they worked, ns."""

    started_ns: int
    ended_ns: int
    worked_ns: dict[str, int]


@dataclass(slots=True, eq=False)
class Execution:
    """A request on its way: what goes in, and once ``done`` is called what came out.

    ``done(execution)`` is called in an instance's thread. Exactly one of ``outputs`` and ``error`` is set.
    The ``_ns`` fields are durations; those of a batch but ``queue_ns`` are the same for all its requests. ``batch``:
    the one that it was executed in, None before. ``before``, ``after``: the processors around the model, None where
    none run in the server.
    """

    arrays: dict[str, Array]
    rows: int
    done: Callable[[Execution], None]
    enqueued_ns: int = 0
    outputs: dict[str, Array] | None = None
    error: Exception | None = None
    queue_ns: int = -1
    input_ns: int = -1
    infer_ns: int = -1
    output_ns: int = -1
    batch: Batch | None = None
    before: Processed | None = None
    after: Processed | None = None
    key: tuple[tuple[str, tuple[int, ...]], ...] = field(init=False, default=())

    @property
    def prepared_ns(self) -> int:
        """What was done to it before the model's run: by processors, and to join its batch."""
        return self.input_ns + _length_ns(self.before)

    @property
    def finished_ns(self) -> int:
        """What was done to it after the model's run: to split its batch, and by processors."""
        return self.output_ns + _length_ns(self.after)


def _length_ns(processed: Processed | None) -> int:
    return processed.ended_ns - processed.started_ns if processed is not None else 0


class Scheduler:
    """Hands requests to instances, one thread and one engine each.

    Without batching every request is executed by itself, with the rows it brings. With batching,
    requests whose inputs differ only in the batch axis are joined in the order of their arrival: at
    once when a preferred size (by default the maximum) is reached or the next one can't join, else
    when the oldest has waited ``max_delay_ms``.
    """

    def __init__(self, engines: Sequence[Engine], batching: Batching | None, statistics: Statistics) -> None:
        self.statistics = statistics
        self._max_rows = batching.max_batch_size if batching else 0
        self._delay_ns = int(batching.max_delay_ms * 1e6) if batching else 0
        preferred = batching.preferred_batch_sizes if batching else ()
        self._preferred = tuple(sorted({p for p in preferred if p <= self._max_rows} | {self._max_rows}))
        self._waiting: deque[Execution] = deque()
        self._changed = threading.Condition(threading.Lock())
        #: One for all instances: the next number is taken in one step of the interpreter.
        self._numbers = count()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(engine,), name=f"instance-{index}", daemon=True)
            for index, engine in enumerate(engines)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, execution: Execution) -> None:
        """Queue a request; raises RequestProblem when it can never be executed or too many wait."""
        if self._max_rows:
            if execution.rows > self._max_rows:
                raise RequestProblem(
                    f"inputs: batch size {execution.rows} given, max_batch_size is {self._max_rows}"
                )
            execution.key = tuple((name, array.shape[1:]) for name, array in execution.arrays.items())
        execution.enqueued_ns = time.monotonic_ns()
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                raise RequestProblem(f"overloaded: {MAX_WAITING} requests are waiting", status=503)
            self._waiting.append(execution)
            self._changed.notify()

    def waiting(self) -> int:
        """How many requests wait in the queue."""
        return len(self._waiting)

    def close(self, timeout_s: float = 5.0) -> None:
        """Finish what is queued and end the instances."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout_s)

    def _work(self, engine: Engine) -> None:
        while batch := self._take():
            self._execute(engine, batch)

    def _take(self) -> list[Execution]:
        """The next requests to execute together; empty when closed."""
        with self._changed:
            while True:
                if not self._waiting:
                    if self._closed:
                        return []
                    self._changed.wait()
                    continue
                if not self._max_rows:
                    return [self._waiting.popleft()]
                count, complete = self._prefix()
                left_ns = self._waiting[0].enqueued_ns + self._delay_ns - time.monotonic_ns()
                if complete or left_ns <= 0 or self._closed:
                    batch = [self._waiting.popleft() for _ in range(count)]
                    if self._waiting:
                        self._changed.notify()
                    return batch
                self._changed.wait(left_ns / 1e9)

    def _prefix(self) -> tuple[int, bool]:
        """How many of the oldest requests go together, and whether waiting could not make it better."""
        key = self._waiting[0].key
        rows = best = 0
        for index, execution in enumerate(self._waiting):
            if execution.key != key or rows + execution.rows > self._max_rows:
                return (best or index), True
            rows += execution.rows
            if rows in self._preferred:
                best = index + 1
                if rows == self._max_rows:
                    return best, True
        return (best, True) if best else (len(self._waiting), False)

    def _execute(self, engine: Engine, batch: list[Execution]) -> None:
        taken_ns = time.monotonic_ns()
        rows = sum(execution.rows for execution in batch)
        try:
            inputs = batch[0].arrays if len(batch) == 1 else _join(batch)
            joined_ns = time.monotonic_ns()
            outputs = engine.run(inputs)
            inferred_ns = time.monotonic_ns()
            parts = [outputs] if len(batch) == 1 else _split(outputs, batch, rows)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises is the request's answer
            log.warning("inference failed rows=%d error=%s: %s", rows, type(error).__name__, error)
            for execution in batch:
                execution.error = error
                self.statistics.failed(time.monotonic_ns() - execution.enqueued_ns)
                execution.done(execution)
            return
        done_ns = time.monotonic_ns()
        together = Batch(next(self._numbers), len(batch), rows)
        for execution, part in zip(batch, parts, strict=True):
            execution.outputs = part
            execution.batch = together
            execution.queue_ns = taken_ns - execution.enqueued_ns
            execution.input_ns = joined_ns - taken_ns
            execution.infer_ns = inferred_ns - joined_ns
            execution.output_ns = done_ns - inferred_ns
        # Counted before it is answered: a client that reads the statistics next finds its request.
        self.statistics.executed(
            rows,
            [execution.queue_ns for execution in batch],
            [done_ns - execution.enqueued_ns for execution in batch],
            joined_ns - taken_ns,
            inferred_ns - joined_ns,
            done_ns - inferred_ns,
        )
        for execution in batch:
            execution.done(execution)


def _join(batch: list[Execution]) -> dict[str, Array]:
    names = batch[0].arrays
    return {name: np.concatenate([execution.arrays[name] for execution in batch]) for name in names}


def _split(outputs: dict[str, Array], batch: list[Execution], rows: int) -> list[dict[str, Array]]:
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != rows:
            raise RuntimeError(
                f"output {name} has shape {array.shape} for a batch of {rows}: "
                "it can't be split between requests"
            )
    parts = []
    at = 0
    for execution in batch:
        parts.append({name: array[at : at + execution.rows] for name, array in outputs.items()})
        at += execution.rows
    return parts
