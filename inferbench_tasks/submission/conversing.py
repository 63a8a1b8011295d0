"""What a load can't have whose requests are turns of conversations; said once for submissions and command line."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.submission.schema import LoadSpec


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
