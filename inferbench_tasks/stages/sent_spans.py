"""Part of ``trace``: what a server of another maker sends of the requests while it runs, as our own servers tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.tracing.assemble import Asked
from inferbench_tasks.tracing.receiver import Receiver

#: How long spans may take to come after the last answer; a server sends them every 0.2 s where it is told to.
_PATIENCE_S = 20.0
_TOLD = ("trace_id", "span_id", "parent_id", "name", "start_ns", "end_ns")


class Sent:
    """What comes at a receiver, of the requests that were waited for."""

    def __init__(self, receiver: Receiver) -> None:
        self.port = receiver.port
        self._receiver = receiver
        self._traces: set[str] = set()
        self._offsets = [epoch_offset()]

    def wait(self, asked: Sequence[Asked]) -> None:
        """Until each request has its spans; one that has none in the end is counted as unanswered."""
        wanted = {(each.trace_id, each.span_id) for each in asked}
        self._traces |= {trace for trace, _ in wanted}
        self._receiver.wait(wanted, _PATIENCE_S)

    def told(self) -> Mapping[str, Any]:
        """As ``servers.tracing`` writes it, with ``spans``: each {trace_id, span_id, parent_id, name, start_ns, end_ns,
        attributes}, Unix time. ServerError for what is no OTLP.
        """
        self._offsets.append(epoch_offset())
        spans = [
            {
                **{name: getattr(span, name) for name in _TOLD},
                "attributes": orjson.loads(span.attributes),
            }
            for span in self._receiver.spans(self._traces)
        ]
        return {
            "epoch_offsets": self._offsets,
            "requests": [],
            "runs": [],
            "layers": [],
            "spans": spans,
            "lost": self._receiver.lost,
            "ignored": 0,
        }
