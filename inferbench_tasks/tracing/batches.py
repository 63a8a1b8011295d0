"""How many samples each traced request has, beside those of the run's load: times of one batch are none of another."""

from __future__ import annotations

from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import NO_LOAD

#: Of a row of a result: what ``traced_batch_size`` goes by.
BATCH_SIZE = "extensions.trace.batch_size"


def traced_batch_size(result: ResultDocument) -> int | None:
    """Samples in each traced request: of those that are asked one by one what ``trace.batch_size`` said, else one,
    whatever those of the load had, or the model's own batch (``stages.traced``); of a share of a load the load's."""
    trace = result.extensions.get("trace") or {}
    if (size := trace.get("batch_size")) is not None:
        return int(size)
    return 1 if trace.get("one_in") is None else result.load.batch_size  # of before it was kept


def batch_in_words(result: ResultDocument) -> str:
    """That traced requests have several samples, or others than those of the load; empty where both have one."""
    if "trace" not in result.extensions or "problem" in result.extensions["trace"]:
        return ""
    size, of_load = traced_batch_size(result), result.load.batch_size
    if size is None:
        return ""
    samples = f"{size:,} sample" if size == 1 else f"{size:,} samples"
    loaded = of_load is not None and result.load.arrivals.get("kind") != NO_LOAD
    if loaded and of_load != size:
        return (
            f"Each traced request has {samples}, each of the load's {of_load:,}: times of the trace and figures of the "
            "load are of different batches."
        )
    return "" if size == 1 else f"Each traced request has {samples}."
