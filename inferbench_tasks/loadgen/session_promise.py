"""What a load of conversations promises beyond its first turns: a turn after each answer that has one, in its moment.

The schedule has the sessions alone. Which turns follow, and when, is known by the answers: of each good one to a turn
that is not the last, the next is due its think time later. So every check of a schedule holds for all turns.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import column, is_ok

#: What is needed of the records, beside what figures are made from.
COLUMNS = ("request_id", "intended_ns", "done_ns", "status", "sample_index")


def with_turns(
    promise: OpenPlan | ClosedPlan,
    plan: LoadPlan,
    records: pa.Table,
    load_end_ns: int,
    window_ns: tuple[int, int],
) -> OpenPlan | ClosedPlan:
    """The promise with the turns that follow answers. ``records``: ``COLUMNS`` of all requests, in their order."""
    inputs = read_inputs(plan.inputs_path)
    conversation, think_ns = inputs["conversation"], inputs["think_ns"].astype(np.int64)
    row = column(records, "sample_index").astype(np.int64)
    after = np.minimum(row + 1, len(conversation) - 1)
    goes_on = is_ok(records) & (row + 1 < len(conversation)) & (conversation[after] == conversation[row])
    done_ns = column(records, "done_ns")
    if isinstance(promise, ClosedPlan):
        pause_ns: NDArray[np.int64] = np.where(goes_on, think_ns[after], promise.think_time_ns)
        return replace(promise, pause_ns=pause_ns, turn_step=plan.turn_step)
    due_ns = done_ns + think_ns[after]
    follows = goes_on & (due_ns < load_end_ns) & (due_ns >= window_ns[0]) & (due_ns < window_ns[1])
    assert promise.request_id is not None
    first = promise.request_id
    return replace(
        promise,
        intended_ns=np.concatenate([promise.intended_ns, due_ns[follows]]),
        request_id=np.concatenate([first, column(records, "request_id")[follows] + plan.turn_step]),
        turn_step=plan.turn_step,
    )
