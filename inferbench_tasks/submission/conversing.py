"""What a load can't have whose requests are turns of conversations; said once for submissions and command line."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.submission.schema import LoadSpec
from inferbench_tasks.submission.token_lengths import Lengths

#: Different prompts, or conversations, of a load whose number of requests nobody knows.
OF_CLOSED = 4096
#: Of all conversations of a load together.
_MOST_TURNS = 400_000


def beginnings(load: LoadSpec, arrivals: ArrivalProcess) -> int:
    """How many prompts or conversations are made for a load: more than it will begin. ``arrivals``: its own, bound."""
    if isinstance(arrivals, ClosedProcess):
        return OF_CLOSED
    return (
        int(1.2 * (arrivals.mean_rate_rps(load.duration_s) or 0.0) * (load.duration_s + load.warmup_s)) + 64
    )


def too_many_turns(count: int, turns: Lengths) -> str | None:
    """What is wrong with so many conversations of so many turns."""
    import numpy as np

    mean = float(turns.draw(1000, np.random.default_rng(0)).mean())
    if count * mean <= _MOST_TURNS:
        return None
    return (
        f"{count:,} conversations of {mean:.1f} turns are more than {_MOST_TURNS:,} requests; lower the rate, "
        "the duration or the turns"
    )


def conversing_problems(load: LoadSpec) -> Iterator[tuple[str, str]]:
    """The field, and what is wrong with it."""
    if load.endpoint == "completions":
        yield (
            "load.endpoint",
            "a conversation is a list of messages, which completions does not take; use chat",
        )
    if load.max_requests is not None:
        message = "counts requests, and a load of conversations ends with its duration; leave it out"
        yield "load.max_requests", message
    arrivals = load.arrivals
    if not arrivals.paced or load.engine != "inferbench":
        yield (
            "load.arrivals",
            f"{arrivals.kind} arrivals are no beginnings of conversations; use another kind",
        )
