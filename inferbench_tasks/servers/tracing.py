"""What a server of ours tells of traced requests: moments, kept in memory and written once, when it ends.

A span written one by one while requests are answered would cost more than what it measures.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.traceparent import TraceContext, parse_all
from inferbench_tasks.servers.engines.base import Engine
from inferbench_tasks.servers.scheduler import Batch, Execution, Processed
from inferbench_tasks.servers.sources.base import HARDWARE, LayerSource, Used
from inferbench_tasks.servers.sources.process_use import ProcessUse
from inferbench_tasks.servers.sources.stands import Stand
from inferbench_tasks.timing.epoch import epoch_offset

#: Kept of one server's life; what comes after is counted only.
MOST_ROWS = 200_000
#: Where a ``traceparent`` of level 1 has its flags, and those of one that asks for nothing else.
_LEVEL, _FLAGS_AT, _SAMPLED = b"00-", 53, b"01"
#: A ``tracestate`` that is no longer is kept as it came; of longer ones so many different are kept once each.
USUAL_STATE_BYTES, MOST_STATES = 128, 64
#: When a request was started (None: nobody saw it), received, decoded, resumed, encoded.
Moments = tuple[int | None, int, int, int, int]
#: Of a request that asks to be traced its headers ``traceparent`` and ``tracestate``, its moments, of its execution
#: ``enqueued_ns`` and how long it was queued, joined, inferred and split, its rows and its batch, the processors before
#: and after, and what the process used. It is read and put into words when all is over: what is done for one in many
#: requests finds nothing of it in the processor's caches, and takes several times as long there as in a row.
_Kept = tuple[
    Sequence[bytes],
    Sequence[bytes],
    Moments,
    tuple[int, int, int, int, int],
    int,
    Batch | None,
    Processed | None,
    Processed | None,
    Used,
]


class Recorder:
    """Moments on CLOCK_MONOTONIC in ns; ``write`` tells how far Unix time is from it, at the beginning and the end."""

    def __init__(self, path: Path, *, framework: bool) -> None:
        self._path = path
        #: Whether the runs of the framework are recorded too, with what their threads used.
        self.framework = framework
        self._requests: list[_Kept] = []
        self._runs: list[dict[str, Any]] = []
        self._lost = 0
        self._states: dict[tuple[bytes, ...], tuple[bytes, ...]] = {}
        #: Requests with a ``traceparent`` that is none, and those whose ``tracestate`` beside a good one is none.
        self._ignored = self._ignored_states = 0
        self._offsets = [epoch_offset()]
        #: Only where requests are asked one by one, as where runs are recorded: else it would be of several.
        self._process = ProcessUse() if framework else None

    def begin(self) -> Stand | None:
        """What the process stands at as a request comes; None where that is not told."""
        return self._process.stand() if self._process is not None else None

    def request(
        self,
        traceparents: Sequence[bytes],
        moments: Moments,
        execution: Execution,
        tracestates: Sequence[bytes] = (),
        begun: Stand | None = None,
    ) -> None:
        """A request that was answered: started, received, decoded, resumed, encoded; the execution knows the moments
        between. Kept if its headers ``traceparents`` ask for it; one that is none is counted (W3C: to be ignored), and
        so are ``tracestates`` that are none, without which the context stands.

        Started is None where a library reads requests before we know of them. ``begun``: what ``begin`` told then.
        Headers of the usual form are read when all is over; of those that are none after all each takes a row.
        """
        if not traceparents:
            return
        full = len(self._requests) >= MOST_ROWS
        if full or not _surely_asks(traceparents, tracestates):
            context = self._asks(traceparents, tracestates)
            if context is None:
                return
            if full:
                self._lost += 1
                return
            traceparents = [str(context).encode()]
            tracestates = self._shared(tracestates) if context.state else []
        used: Used = self._process.since(begun) if self._process is not None and begun is not None else {}
        times = (
            execution.enqueued_ns,
            execution.queue_ns,
            execution.input_ns,
            execution.infer_ns,
            execution.output_ns,
        )
        rows, batch, before, after = execution.rows, execution.batch, execution.before, execution.after
        self._requests.append((traceparents, tracestates, moments, times, rows, batch, before, after, used))

    def _asks(self, traceparents: Sequence[bytes], tracestates: Sequence[bytes]) -> TraceContext | None:
        """The context, if it asks to be traced; what is to be ignored is counted."""
        context = parse_all(traceparents, tracestates)
        if context is None:
            self._ignored += 1
            return None
        self._ignored_states += context.state_ignored
        return context if context.sampled else None

    def _shared(self, tracestates: Sequence[bytes]) -> Sequence[bytes]:
        """The same headers once: they may be long, and a client's are mostly alike."""
        if len(self._states) >= MOST_STATES:
            self._states.clear()
        key = tuple(tracestates)
        return self._states.setdefault(key, key)

    def run(self, row: dict[str, Any]) -> None:
        """One run of the framework."""
        if len(self._runs) >= MOST_ROWS:
            self._lost += 1
        else:
            self._runs.append(row)

    def write(self, sources: Sequence[LayerSource]) -> None:
        """Everything as one JSON file, whole or not at all, with what the sources tell since the first request."""
        self._offsets.append(epoch_offset())
        contexts = [parse_all(kept[0], kept[1]) for kept in self._requests]
        asked = [context for context in contexts if context is not None]
        requests = [
            _named(context, kept)
            for context, kept in zip(contexts, self._requests, strict=True)
            if context is not None
        ]
        since_ns = requests[0]["started_ns"] if requests else 0
        # Others ask too once the traced requests are answered: whether the answers are still the model's.
        until_ns = max((row["encoded_ns"] for row in requests), default=time.monotonic_ns())
        layers = [layer for source in sources for layer in source.spans(since_ns, until_ns)]
        document = {
            "epoch_offsets": self._offsets,
            "requests": requests,
            "runs": self._runs,
            "layers": layers,
            # Not counted there: what is written again is counted once.
            "ignored": self._ignored + len(contexts) - len(asked),
            "ignored_states": self._ignored_states + sum(context.state_ignored for context in asked),
            "lost": self._lost + sum(source.lost for source in sources),
            # Only some sources sample, and only some meet what is in no layer.
            "sampling": [each for source in sources if (each := getattr(source, "sampling", None))],
            "outside": [each for source in sources if (each := getattr(source, "outside", None))],
            "why_lost": [each for source in sources if (each := getattr(source, "why_lost", ""))],
            "gpu_clock_errors_ns": [
                each
                for source in sources
                if (each := getattr(source, "gpu_clock_error_ns", None)) is not None
            ],
        }
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(document))
        partial.replace(self._path)


def _surely_asks(traceparents: Sequence[bytes], tracestates: Sequence[bytes]) -> bool:
    """Whether they look as almost all do that ask: one of each at most, of level 1, sampled and nothing more, and no
    state that is long: each of these is kept by itself."""
    return (
        len(traceparents) == 1
        and traceparents[0][_FLAGS_AT:] == _SAMPLED
        and traceparents[0].startswith(_LEVEL)
        and (not tracestates or (len(tracestates) == 1 and len(tracestates[0]) <= USUAL_STATE_BYTES))
    )


def _named(context: TraceContext, kept: _Kept) -> dict[str, Any]:
    """A traced request as it is told."""
    _, _, moments, times, rows, batch, before, after, used = kept
    enqueued_ns, queue_ns, input_ns, infer_ns, output_ns = times
    started_ns, received_ns, decoded_ns, resumed_ns, encoded_ns = moments
    taken_ns = enqueued_ns + queue_ns
    joined_ns = taken_ns + input_ns
    inferred_ns = joined_ns + infer_ns
    return {
        "trace_id": context.trace_id,
        "parent_id": context.span_id,
        **({"tracestate": context.state} if context.state else {}),
        "started_ns": received_ns if started_ns is None else started_ns,
        "unseen": ["read"] if started_ns is None else [],
        "received_ns": received_ns,
        "decoded_ns": decoded_ns,
        "enqueued_ns": enqueued_ns,
        "taken_ns": taken_ns,
        "joined_ns": joined_ns,
        "inferred_ns": inferred_ns,
        "split_ns": inferred_ns + output_ns,
        "resumed_ns": resumed_ns,
        "encoded_ns": encoded_ns,
        "rows": rows,
        "batch": batch._asdict() if batch is not None and batch.requests > 1 else None,
        **({"before": before._asdict()} if before is not None else {}),
        **({"after": after._asdict()} if after is not None else {}),
        "used": used,
    }


class TracedEngine:
    """An engine whose runs are recorded, with what each used (the level hardware).

    ``source``: what tells of the layers; it begins before and ends after what is timed.
    """

    def __init__(self, engine: Engine, recorder: Recorder, source: LayerSource | None) -> None:
        self._engine = engine
        self._name = str(getattr(engine, "run_name", "run"))
        self._recorder = recorder
        self._source = source
        #: Each instance has a thread of its own, which alone asks its engine.
        self._hardware = [HARDWARE.load(kind)() for kind in HARDWARE]

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """As the engine does; a run that raises is in no trace."""
        if self._source is not None:
            self._source.start()
        for source in self._hardware:
            source.start()
        start_ns = time.monotonic_ns()
        used: Used = {}
        outputs: dict[str, Array] | None = None
        try:
            outputs = self._engine.run(inputs)
        finally:
            # Of a run that failed, too: the next one begins them anew.
            end_ns = time.monotonic_ns()
            for source in reversed(self._hardware):
                used |= source.stop()
            if self._source is not None:
                self._source.stop(start_ns, end_ns)
                # Only sources that count runs without a word have it.
                if outputs is None and (raised := getattr(self._source, "raised", None)) is not None:
                    raised()
        thread = threading.get_native_id()
        about = {"name": self._name, "start_ns": start_ns, "end_ns": end_ns}
        self._recorder.run({**about, "thread": thread, "used": used})
        return outputs
