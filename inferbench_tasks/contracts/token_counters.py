"""Which of a server's own metrics count what it did for streams of tokens: a table of names that a backend brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: What a mean may be of, ms, and what is counted or looked at: the keys that figures know.
MEANS = ("prompt_token_ms", "output_token_ms", "tpot_ms", "itl_ms", "ttft_ms", "queue_ms")
TOTALS = ("prompt_tokens", "cached_tokens", "output_tokens")
GAUGES = ("waiting_requests", "running_requests")


@dataclass(frozen=True)
class Mean:
    """The growth of ``total`` over that of ``count``, both counters; ``per_unit_ms``: ms of a unit of ``total``."""

    total: str
    count: str
    per_unit_ms: float = 1000.0


@dataclass(frozen=True)
class TokenCounters:
    """Names as the page has them; a counter's ends in ``_total`` (or ``_sum`` and ``_count`` of a histogram).

    ``means``: of ``MEANS``; ``totals``: counters, of ``TOTALS``; ``gauges``: of ``GAUGES``, averaged over the samples.
    """

    means: Mapping[str, Mean] = field(default_factory=dict)
    totals: Mapping[str, str] = field(default_factory=dict)
    gauges: Mapping[str, str] = field(default_factory=dict)
