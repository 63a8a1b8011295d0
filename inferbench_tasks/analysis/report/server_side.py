"""Where the time to the first token goes, client, server or between, by the server's own word beside the client's."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.analysis.report.runs import RunView

#: A part that has more than half of the time is where it goes.
_MOST = 0.5
#: Servers tell their times to a microsecond.
_SAME_MS = 0.001
_PLACES = {
    "client_ms": "the client's wait before the send",
    "connection_ms": "the wait for a connection of which so many were asked for",
    "server_queue_ms": "the server's queue",
    "server_prompt_ms": "the server's work on the prompt",
    "between_ms": "neither: the network, the server's reading and writing",
}


_SHORT = {
    "client_ms": "the client's wait",
    "connection_ms": "the wait for a connection",
    "server_queue_ms": "the server's queue",
    "server_prompt_ms": "the server's work on the prompt",
    "between_ms": "what neither accounts for",
}


def verdict(view: RunView) -> str | None:
    """A sentence on where the time goes, and one on the tokens after the first; None where the server tells nothing."""
    parts = view.figure("tokens.ttft_parts")
    if not parts and (said := _by_counters(view)):
        return f"{view.label}: {said}"
    if not parts or view.figure("tokens.ttft_ms.mean") is None:
        return None
    said = _first_token(parts)
    if rest := _later_tokens(view):
        said += f" {rest}"
    return f"{view.label}: {said}"


def _by_counters(view: RunView) -> str | None:
    """Of a server whose answers carry no times: its means beside the client's, and no difference of other requests."""
    parts = []
    for counter, ours, what in (
        ("ttft_ms", "ttft_from_send_ms", "to the first token"),
        ("tpot_ms", "tpot_ms", "for each later token"),
    ):
        own, mean = view.figure(f"tokens.server_counters.{counter}"), view.figure(f"tokens.{ours}.mean")
        if own is not None and mean is not None:
            parts.append(f"{number(own)} ms {what}, where the client's mean is {number(mean)} ms")
    if not parts:
        return None
    queue = view.figure("tokens.server_counters.queue_ms")
    waited = "" if queue is None else f"; in its queue a request was {number(queue)} ms"
    return (
        f"by the means of the server's own counters over the window: {'; '.join(parts)}{waited}. They are of the "
        "requests that it counted there, not of just those that the client's figures are of, so no difference is made."
    )


def _first_token(parts: dict[str, Any]) -> str:
    told, good, impossible = parts["requests"], parts["good"], parts["impossible"]
    whose = "" if told == good else f" (of {told:,} of {good:,} good answers, which tell it)"
    whole = parts["ttft_ms"]
    if impossible:
        return (
            f"of {impossible:,} of {told:,} answers the server's own part of the first token is longer than what the "
            "client saw from the send: both can't be right, and no verdict is given."
        )
    names = dict(_PLACES)
    if parts["server_queue_ms"] is None:
        names["between_ms"] += " and its queue, which it does not tell"
    known = {name: value for name in names if (value := parts.get(name)) is not None}
    listed = ", ".join(f"{number(value)} ms {names[name]}" for name, value in known.items())
    name, most = max(known.items(), key=lambda item: item[1])
    goes = f"most of it is {_SHORT[name]}" if most > _MOST * whole else "no part has most of it"
    return f"of a mean of {number(whole)} ms to the first token{whose} by the server's own word: {listed}; {goes}."


def _later_tokens(view: RunView) -> str | None:
    own, ours, beyond = (
        view.figure(f"tokens.{name}_ms.mean") for name in ("server_tpot", "tpot", "tpot_beyond_server")
    )
    if own is None or ours is None or beyond is None:
        return None
    told = f"Each later token took the server {number(own)} ms (mean); the client saw"
    if abs(beyond) < _SAME_MS:
        return f"{told} the same, to {_SAME_MS:g} ms."
    return f"{told} {number(abs(beyond))} ms {'more' if beyond >= 0 else 'less'}."
