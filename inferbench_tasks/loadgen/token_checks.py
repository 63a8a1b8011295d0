"""What the certificate asks of streams of tokens, beside what it asks of every load: were chunks stamped right?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import Check, ShardUsage
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.loadgen.statistics import FLOORS
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.token_records import CHUNKS, STREAMS, read_table

#: A load may begin with a prompt that was asked once before it.
_ASKED_BEFORE = 1
#: What is read of the streams to know what was cached, and which of them lie in the window.
JUDGED = pa.schema(
    [STREAMS.field(name) for name in ("request_id", "cached_tokens", "first_token_ns", "last_token_ns")]
)
_US_PER_MS, _NS_PER_MS = 1e3, 1e6


@dataclass(frozen=True)
class Stamps:
    """``waited_us``: how long each of the window's chunks with a stamp of the kernel waited to be read."""

    by: str
    waited_us: NDArray[np.int64]

    @classmethod
    def of(cls, chunks_path: Path, start_ns: int, end_ns: int) -> Stamps:
        """From a load's records."""
        wanted = pa.schema([CHUNKS.field(name) for name in ("arrival_ns", "waited_us")])
        chunks, about = read_table(chunks_path, wanted)
        inside = (chunks["arrival_ns"] > start_ns) & (chunks["arrival_ns"] <= end_ns)
        stamped = inside & (chunks["waited_us"] >= 0)
        return cls(about.get("stamp", "read"), chunks["waited_us"][stamped].astype(np.int64))

    @property
    def delay_p99_ms(self) -> float | None:
        """None where the reads themselves are the stamps, and of fewer chunks than a p99 takes."""
        if len(self.waited_us) < FLOORS[0.99]:
            return None
        return float(np.quantile(self.waited_us, 0.99, method="inverted_cdf")) / _US_PER_MS

    def figures(self) -> dict[str, Any]:
        """For the certificate."""
        return {"stamp": self.by, "stamp_delay_p99_ms": self.delay_p99_ms}


def stamp_checks(
    stamps: Stamps, shards: Sequence[ShardUsage], limits: Thresholds, ttft_ms: float | None
) -> Iterator[Check]:
    """``ttft_ms``: what is asked of the time to the first token, if anything is."""
    delay_ms = stamps.delay_p99_ms
    limit_ms = max(limits.stamp_delay_ms, limits.stamp_delay_ttft_ratio * (ttft_ms or 0.0))
    if delay_ms is not None:
        yield Check.at_most(
            "stamp_delay_p99", delay_ms, limit_ms, "ms",
            f"chunks waited {delay_ms:.1f} ms (p99) to be read after the kernel had them (at most {limit_ms:g} ms): "
            "the client does not keep up, and chunks that wait together are no longer told apart",
        )  # fmt: skip
    step_ms = max((usage.clock_step_ns or 0 for usage in shards), default=0) / _NS_PER_MS
    if len(stamps.waited_us):
        yield Check.at_most(
            "clock_step", step_ms, limits.clock_step_ms, "ms",
            f"the system's time was set by {step_ms:,.3f} ms during the load (at most {limits.clock_step_ms:g} ms): "
            "the kernel's stamps around it are wrong by as much",
        )  # fmt: skip


def cached_check(
    records: pa.Table, streams: dict[str, NDArray[Any]], cacheable_tokens: int, turn_step: int
) -> Check:
    """No prompt that was sent for the first time was found in a cache beyond what the load itself shares.

    ``records``: of all requests, in the order of their moments. ``turn_step``: see ``LoadPlan``; later turns carry
    what was said before, which may be cached.
    """
    numbers, rows = column(records, "request_id"), column(records, "sample_index")
    begin = np.flatnonzero(numbers < turn_step) if turn_step else np.arange(len(numbers))
    first = begin[np.unique(rows[begin], return_index=True)[1]]
    judged = np.isin(streams["request_id"], numbers[first])
    found = int(np.count_nonzero(streams["cached_tokens"][judged] > cacheable_tokens))
    most = int(streams["cached_tokens"][judged].max(initial=0))
    return Check.at_most(
        "cached_though_salted", found, _ASKED_BEFORE, "requests",
        f"{found} prompts that were sent for the first time had more than {cacheable_tokens} tokens (up to {most}) in "
        "a cache, which the salt forbids: the server takes other prompts for theirs, or counts wrongly",
    )  # fmt: skip


def cut_by_window(
    records: pa.Table, streams: dict[str, NDArray[Any]], start_ns: int, end_ns: int
) -> dict[str, int]:
    """Of the good answers with a token in the window (start, end]: how many there are, how many are not wholly in it.

    Tokens/s has of those what arrived within, and how an answer's tokens lie in its chunks is known in sum alone:
    the more of them, the less sure it is.
    """
    good = np.isin(streams["request_id"], column(records, "request_id")[is_ok(records)])
    first, last = (streams[name][good] for name in ("first_token_ns", "last_token_ns"))
    inside = (first >= 0) & (last > start_ns) & (first <= end_ns)
    whole = inside & (first > start_ns) & (last <= end_ns)
    return {"streams_in_window": int(inside.sum()), "streams_cut_by_window": int((inside & ~whole).sum())}
