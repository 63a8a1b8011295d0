"""What the server counts: the statistics extension of KServe v2, as Triton defines it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Duration:
    """A number of events and their total time, ns."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Count ``count`` events that took ``ns`` each."""
        self.count += count
        self.ns += ns * count

    def document(self) -> dict[str, int]:
        """The count and the nanoseconds as the protocol's statistics describe them."""
        return {"count": self.count, "ns": self.ns}


def _durations(*names: str) -> dict[str, Duration]:
    return {name: Duration() for name in names}


COMPUTE = ("compute_input", "compute_infer", "compute_output")


@dataclass(slots=True)
class Statistics:
    """Counters of one model; safe to use from several threads.

    ``inference_count`` counts rows, ``execution_count`` runs of the model. A request that was executed
    in a batch is counted with the whole batch's compute times.
    """

    inference_count: int = 0
    execution_count: int = 0
    last_inference_ms: int = 0
    requests: dict[str, Duration] = field(
        default_factory=lambda: _durations("success", "fail", "queue", *COMPUTE)
    )
    batches: dict[int, dict[str, Duration]] = field(default_factory=dict)
    #: By kind of processor, where some run here; one event is one request.
    processors: dict[str, Duration] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def executed(
        self,
        rows: int,
        queue_ns: list[int],
        total_ns: list[int],
        input_ns: int,
        infer_ns: int,
        output_ns: int,
    ) -> None:
        """One run of the model for ``len(queue_ns)`` requests with ``rows`` rows together."""
        requests = len(queue_ns)
        with self._lock:
            self.inference_count += rows
            self.execution_count += 1
            self.last_inference_ms = time.time_ns() // 1_000_000
            for waited, total in zip(queue_ns, total_ns, strict=True):
                self.requests["queue"].add(waited)
                self.requests["success"].add(total)
            batch = self.batches.setdefault(rows, _durations(*COMPUTE))
            for name, ns in zip(COMPUTE, (input_ns, infer_ns, output_ns), strict=True):
                self.requests[name].add(ns, requests)
                batch[name].add(ns)

    def processed(self, spent: dict[str, int]) -> None:
        """The time that each processor took for one request, ns."""
        with self._lock:
            for kind, ns in spent.items():
                self.processors.setdefault(kind, Duration()).add(ns)

    def failed(self, ns: int) -> None:
        """A request that was refused or could not be executed."""
        with self._lock:
            self.requests["fail"].add(ns)

    def document(self, name: str, version: str) -> dict[str, Any]:
        """The model's entry in ``model_stats`` of the protocol's statistics."""
        with self._lock:
            processors = {kind: spent.document() for kind, spent in self.processors.items()}
            return {
                **({"processor_stats": processors} if processors else {}),
                "name": name,
                "version": version,
                "last_inference": self.last_inference_ms,
                "inference_count": self.inference_count,
                "execution_count": self.execution_count,
                "inference_stats": {key: value.document() for key, value in self.requests.items()},
                "batch_stats": [
                    {"batch_size": rows, **{key: value.document() for key, value in batch.items()}}
                    for rows, batch in sorted(self.batches.items())
                ],
            }
