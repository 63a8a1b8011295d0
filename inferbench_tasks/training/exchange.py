"""The exchange of gradients, by the clocks of DistributedDataParallel's own reducer.

In each backward pass it notes when the first bucket of gradients is handed to the process group, when the last gradient
is computed, and when the last bucket has come back (on a GPU by events on the stream). In all is from the first to the
third, apart from the second to the third: what computing does not hide. Both hold the wait for the slowest rank.
"""

from __future__ import annotations

from typing import Any, Final

#: Backward passes between two looks of the reducer, in epochs that don't want any.
_NEVER: Final = 1 << 30


class Exchange:
    """``network``: a DistributedDataParallel."""

    columns: Final = ("all_reduce_ns", "all_reduce_apart_ns")

    def __init__(self, network: Any) -> None:
        self._network = network
        self.watch(False)

    def watch(self, wanted: bool) -> None:
        """Whether the reducer reads its clocks in the passes to come; its first ten it always does."""
        self._network._set_ddp_runtime_logging_sample_rate(1 if wanted else _NEVER)

    def read(self) -> tuple[int | None, int | None]:
        """In all and apart, ns, of the backward pass that is over; None where the reducer has none."""
        self._network.logger.set_runtime_stats_and_log()
        times = self._network._get_ddp_logging_data()
        whole, beside = times.get("backward_comm_time"), times.get("backward_compute_comm_overlap_time")
        if not whole or beside is None:
            return None, None
        return int(whole), max(0, int(whole) - int(beside))
