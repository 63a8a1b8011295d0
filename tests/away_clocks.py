"""Where traced requests of another host's client truly were, where the test knows how its clock lies to this one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from inferbench_tasks.loadgen.records import column
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.tracing.spans import Span

#: What two readings of Unix time lie apart, the server's and the test's, some seconds later.
_EPOCHS_NS = 500_000


def misplaced(requests: Sequence[Span], records: pa.Table, ahead_ns: int) -> list[tuple[int, int]]:
    """(number, ns) of each that is farther from where it was than it says. ``records``: as the client's host has them;
    ``ahead_ns``: so far is its CLOCK_MONOTONIC ahead of this process's; all of them share Unix time.
    """
    to_unix_ns = epoch_offset()["offset_ns"] - ahead_ns
    numbers = column(records, "request_id").tolist()
    truly_ns = {
        number: (intended_ns + to_unix_ns, done_ns + to_unix_ns)
        for number, intended_ns, done_ns in zip(
            numbers, column(records, "intended_ns").tolist(), column(records, "done_ns").tolist(), strict=True
        )
    }
    wrong = []
    for span in requests:
        start_ns, end_ns = truly_ns[span.attributes["request"]]
        error_ns = span.attributes["clock_error_ns"] + _EPOCHS_NS
        apart_ns = max(abs(span.start_ns - start_ns), abs(span.end_ns - end_ns))
        if apart_ns > error_ns:
            wrong.append((span.attributes["request"], apart_ns))
    return wrong
