"""What PerfDB is told of a stage's failure; where it is away just then, the failure leaves the stage all the same."""

from __future__ import annotations

import logging
from collections.abc import Callable

from inferbench_tasks.errors import InferBenchError

log = logging.getLogger(__name__)


def record_failure(superseded: Callable[[], bool], record: Callable[[bool], None]) -> None:
    """Call ``record`` with whether the run ends with its stage: not where it runs elsewhere by now (``superseded``).

    Where that can't be told the run is left to whoever finds it without a stage: a run that goes on elsewhere must not
    end here. No error of PerfDB leaves this function.
    """
    try:
        ends = not superseded()
    except InferBenchError:
        log.warning("whether the run goes on elsewhere can't be told: it is not ended here", exc_info=True)
        ends = False
    try:
        record(ends)
    except InferBenchError:
        log.exception("PerfDB was not told that the stage failed")
