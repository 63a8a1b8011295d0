"""Requests whose client is on another host than their server: on the clock of the server's host, and what is known of
the way between both.

What two hosts tell lies beside each other to the error of their clocks. What took less than that is of neither way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from inferbench_tasks.errors import LoadError
from inferbench_tasks.timing.other_clock import OtherClock
from inferbench_tasks.tracing.assemble import Asked
from inferbench_tasks.tracing.spans import Span

#: What of a request's processors are moments.
_MOMENTS = ("started_ns", "ended_ns")
#: The part of a server's span in which the request's body comes (``tracing.request_parts``).
READ = "read"


def on_our_clock(asked: Sequence[Asked], clock: OtherClock) -> list[Asked]:
    """Requests of a client of that clock on ours, each with what it may be wrong by; the lengths of their parts are
    those that the client told. LoadError where that clock was set meanwhile.
    """
    return [_moved(request, clock) for request in asked]


def _moved(request: Asked, clock: OtherClock) -> Asked:
    shift = clock.shift(request.intended_ns, request.done_ns)
    if shift is None:
        raise LoadError(
            "The clocks of the load's host and of the server's contradict themselves while the load was sent: one of "
            "them was set, and how their moments lie to each other is not known"
        )
    ahead_ns = shift.ahead_ns

    def processed(told: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        return told and {**told, **{name: told[name] - ahead_ns for name in _MOMENTS}}

    return replace(
        request,
        intended_ns=request.intended_ns - ahead_ns,
        sent_ns=request.sent_ns - ahead_ns,
        first_byte_ns=request.first_byte_ns
        if request.first_byte_ns < 0
        else request.first_byte_ns - ahead_ns,
        done_ns=request.done_ns - ahead_ns,
        before=processed(request.before),
        after=processed(request.after),
        answered_ns=None if request.answered_ns is None else request.answered_ns - ahead_ns,
        clock_error_ns=shift.error_ns,
    )


def ways(spans: Sequence[Span], error_ns: int) -> dict[str, Any] | None:
    """Of the part of requests in which their server is asked, what is not the server's: {requests, both_ms, there_ms,
    back_ms}, medians. None where no server told of any.

    Both ways together are the difference of two lengths, each of one clock. Each by itself lies between a moment of
    either host: ``there_ms`` and ``back_ms`` are None where they are not above ``error_ns``, the most that these
    moments may be wrong beside each other. The way there ends with the request's body, which a server over HTTP reads
    within its own span, and the way back with the first byte.
    """
    reads_ns = {(s.trace_id, s.parent): s.duration_ns for s in spans if s.level == "model" and s.name == READ}
    asking: dict[tuple[str, int], Span] = {}
    there_ns, back_ns, both_ns = [], [], []
    for span in spans:
        if span.level == "application":
            asking[span.trace_id, span.number] = span
        elif span.name == "server" and (around := asking.get((span.trace_id, span.parent))) is not None:
            read_ns = reads_ns.get((span.trace_id, span.number), 0)
            there_ns.append(span.start_ns + read_ns - around.start_ns)
            back_ns.append(around.end_ns - span.end_ns)
            both_ns.append(around.duration_ns - span.duration_ns + read_ns)
    if not both_ns:
        return None

    def known(times_ns: list[int]) -> float | None:
        middle_ns = median(times_ns)
        return middle_ns / 1e6 if middle_ns > error_ns else None

    return {
        "requests": len(both_ns),
        "both_ms": median(both_ns) / 1e6,
        "there_ms": known(there_ns),
        "back_ms": known(back_ns),
    }


def hosts_in_words(trace: Mapping[str, Any]) -> str:
    """From where the requests came, and how well the clocks of both hosts are known; empty where all is of one host.

    ``trace``: what a result says of it, see ``stages.traced_load``.
    """
    hosts = trace.get("hosts")
    if not hosts:
        return ""
    return _of_the_clocks(hosts) + _of_the_way(hosts.get("ways"))


def _of_the_clocks(hosts: Mapping[str, Any]) -> str:
    said = (
        f"they were sent by {hosts['client']} and lie on the clock of their server's host, {hosts['server']}"
    )
    if hosts["error_ms"] is None:
        return said
    within = at_most(hosts["error_ms"])
    return f"{said}, to within {within} ms: what took less between the two is told of neither way"


def at_most(value: float) -> str:
    """Two digits, rounded up: of a bound nothing is taken away."""
    if not value > 0:
        return "0"
    digits = 1 - math.floor(math.log10(value))
    step = 10.0**-digits
    return f"{math.ceil(value / step - 1e-9) * step:.{max(digits, 0)}f}"


def _of_the_way(ways: Mapping[str, Any] | None) -> str:
    """With what each way took where both are told."""
    if ways is None:
        return ""
    there_ms, back_ms = ways["there_ms"], ways["back_ms"]
    each = "" if there_ms is None or back_ms is None else f" ({there_ms:.3g} there, {back_ms:.3g} back)"
    return f"; there and back took {ways['both_ms']:.3g} ms in the median{each}"
