"""A sink before another: what a client tells is handed on, unless a subclass looks at it first."""

from __future__ import annotations

from inferbench_tasks.clients.base import Call, Sink


class ForwardingSink(Sink):
    """Hands everything on."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        self._sink.finish(call, status, done_ns)

    def ready(self) -> None:
        self._sink.ready()

    def again(self, call: Call) -> None:
        self._sink.again(call)

    def unreachable(self, reason: str) -> None:
        self._sink.unreachable(reason)

    def explain(self, status: str, text: str) -> None:
        self._sink.explain(status, text)
