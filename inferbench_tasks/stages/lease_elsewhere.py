"""A job's devices on other hosts, while a stage works with what stands there: whether it has lost one of them.

A host that goes takes the job's device with it. What is connected to it fails within moments; that the device is gone
is known once its worker was silent for 15 s (``cluster.store.TTL_S``), and then the job is run again. A stage that had
failed before would have told why, and what fails by itself is not run again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from inferbench_tasks.errors import InferBenchError, StageError
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.lease_token import token_of

#: The worker's silence, and what a scheduler takes to see it.
_LEASE_S = 20.0
_LOOK_S = 0.5


class LeaseElsewhere:
    """``device_ids``: of other hosts, which the job holds now; "" of one that nobody leases."""

    def __init__(self, device_ids: Iterable[str], ctx: Context) -> None:
        """PerfDBError where PerfDB can't be asked."""
        self._ctx = ctx
        self._tokens = {name: token_of(name, ctx.data_dir) for name in device_ids if name}

    def await_loss(self) -> None:
        """Until the job is known to have lost one of them, if it has; no longer than that takes."""
        deadline_s = time.monotonic() + _LEASE_S
        while self._tokens and time.monotonic() < deadline_s and not self._ctx.cancelled():
            if any(self._lost(name) for name in self._tokens):
                return
            time.sleep(_LOOK_S)

    def _lost(self, name: str) -> bool:
        """No where PerfDB can't be asked."""
        try:
            return token_of(name, self._ctx.data_dir) != self._tokens[name]
        except InferBenchError:
            return False


@contextmanager
def lease_awaited(device_ids: Iterable[str], ctx: Context) -> Iterator[None]:
    """Where what is done with those hosts fails it leaves once the job is known to have lost a device there, if it
    has.
    """
    lease = LeaseElsewhere(device_ids, ctx)
    try:
        yield
    except StageError:
        lease.await_loss()
        raise
