"""Part of ``evaluate``: each sample of a set is asked once, by a load's scenario or one by one, and its answer kept.

A scenario offers so many requests in its time; where the set has more samples, it begins again with those that are
left. Samples of one request are answered together. What got no answer is told, and asked no second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.closed_loop import ClosedLoop
from inferbench_tasks.arrivals.offline import Offline
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.kept_answers import read_kept
from inferbench_tasks.loadgen.live import Snapshot
from inferbench_tasks.loadgen.plan import BatchShare, LoadPlan, OutputShape
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import codes, column, read_samples
from inferbench_tasks.stages.sending import Progress, applied, emptied
from inferbench_tasks.submission.schema import LoadSpec

#: Requests of one pass, as bytes of their tensors: beyond it a sender would begin to send the first again.
_PASS_BYTES = 96 << 20

#: Alone samples are asked for as long as it takes; where it takes longer, a further pass goes on.
_LONGEST_S = 3_600.0
#: How often it is told how many samples were asked: the sender has the core beside this process, or the same.
_TOLD_S = 1.0

#: ``asked, total``
Asking = Callable[[int, int], None]


@dataclass(frozen=True)
class Asked:
    """``outputs``: by name, a row for each sample; those of samples without an answer are zeros or empty.

    ``answered``: which have one. ``latency_ms``: of the request that each was in, from its intended moment; NaN
    without an answer. ``statuses``: kind of failure -> samples. ``passes``: how often the scenario ran.
    """

    outputs: Arrays
    answered: NDArray[np.bool_]
    latency_ms: NDArray[np.float64]
    statuses: dict[str, int]
    passes: int

    @property
    def unanswered(self) -> int:
        """How many samples have no answer."""
        return int((~self.answered).sum())


def one_by_one(load: LoadSpec) -> LoadSpec:
    """The load with one user, who asks one sample and waits, until all are asked."""
    return load.model_copy(
        update={
            "arrivals": ClosedLoop(kind="closed_loop", concurrency=1),
            "batch_size": 1,
            "connections": None,
            "duration_s": _LONGEST_S,
        }
    )


def ask(
    load: LoadSpec,
    samples: Arrays,
    reference: Arrays,
    endpoint: Endpoint,
    *,
    folder: Path,
    base_dir: Path,
    asking: Asking = lambda asked, total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Asked:
    """Ask every sample once. ``reference``: an answer's names, types and shapes.

    LoadError where the scenario could not be run, or asks nothing; CancelledError.
    """
    total = len(next(iter(samples.values())))
    shapes = {name: OutputShape(shape=array.shape[1:]) for name, array in reference.items()}
    left = np.ones(total, dtype=bool)
    answered = np.zeros(total, dtype=bool)
    latency_ms = np.full(total, np.nan)
    outputs: dict[str, NDArray[Any]] = {}
    statuses: dict[str, int] = {}
    passes = 0
    while left.any():
        before = total - int(left.sum())
        asking(before, total)
        rows, size = _of_pass(np.flatnonzero(left), samples, load.samples_per_request)
        part = {name: array[rows] for name, array in samples.items()}
        plan = _plan(load, part, size, len(rows) // size, shapes, endpoint, folder, base_dir)
        found = _apply(plan, folder, cancelled, _told(asking, before, size, total))
        if not found.first_rows.size:
            raise LoadError(f"The {load.arrivals.kind} load asked nothing in {load.duration_s:g} s")
        asked = rows[_samples_of(found.first_rows, size)]
        left[asked] = False
        for status, count in found.statuses.items():
            statuses[status] = statuses.get(status, 0) + count * size
        good = rows[_samples_of(found.good_rows, size)]
        answered[good] = True
        latency_ms[good] = np.repeat(found.latency_ms, size)
        for name, array in found.outputs.items():
            if name not in outputs:
                outputs[name] = np.zeros((total, *array.shape[1:]), dtype=array.dtype)
            elif outputs[name].dtype.kind == "U" and array.dtype.itemsize > outputs[name].dtype.itemsize:
                outputs[name] = outputs[name].astype(array.dtype)
            outputs[name][good] = array
        passes += 1
        rmtree(folder)
    asking(total, total)
    return Asked(outputs, answered, latency_ms, statuses, passes)


@dataclass(frozen=True)
class _Found:
    """Of one pass: the first row of every request that was sent; of the good ones also rows, latencies and answers."""

    first_rows: NDArray[np.int64]
    good_rows: NDArray[np.int64]
    latency_ms: NDArray[np.float64]
    outputs: Arrays
    statuses: dict[str, int]


def _told(asking: Asking, before: int, size: int, total: int) -> Progress:
    """Tells now and then how many samples were asked, ``before`` of them in earlier passes."""
    due_s = _TOLD_S

    def tell(elapsed_s: float, _: float, snapshot: Snapshot | None) -> None:
        nonlocal due_s
        if snapshot is not None and elapsed_s >= due_s:
            due_s = elapsed_s + _TOLD_S
            asking(min(before + snapshot.done * size, total), total)

    return tell


def _of_pass(left: NDArray[np.int64], samples: Arrays, size: int) -> tuple[NDArray[np.int64], int]:
    """The samples of the next pass and how many are in a request: whole requests first, the rest as a smaller one."""
    row_bytes = max(1, sum(array[:1].nbytes for array in samples.values()))
    most = max(1, _PASS_BYTES // row_bytes)
    size = min(size, len(left))
    return left[: max(1, min(most, len(left)) // size) * size], size


def _samples_of(first_rows: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The rows of requests that begin at these."""
    rows: NDArray[np.int64] = (first_rows[:, None] + np.arange(size)[None, :]).reshape(-1)
    return rows


def _plan(
    load: LoadSpec,
    samples: Arrays,
    size: int,
    requests: int,
    shapes: dict[str, OutputShape],
    endpoint: Endpoint,
    folder: Path,
    base_dir: Path,
) -> LoadPlan:
    """One sender's orders for exactly these requests, each once; without a warm-up, never ended for its failures."""
    inputs = emptied(folder) / "inputs.npz"
    write_archive(inputs, samples)
    update: dict[str, Any] = {"warmup_s": 0.0, "shards": 1, "max_error_ratio": 1.0, "max_requests": requests}
    if isinstance(load.arrivals, Offline):
        update |= {"arrivals": Offline(kind="offline", requests=requests), "max_requests": None}
    plan = prepare(
        load.model_copy(update=update),
        folder=folder / "load",
        endpoint=endpoint,
        inputs_path=str(inputs),
        base_dir=base_dir,
        expected=shapes,
        batches=(BatchShare(batch_size=size),),
    )
    return plan.model_copy(update={"keep_answers": True})


def _apply(plan: LoadPlan, folder: Path, cancelled: Callable[[], bool], progress: Progress) -> _Found:
    path = folder / "samples.parquet"
    applied(plan, path, "the samples", cancelled, progress)
    table = read_samples(path)
    request_ids, first_rows = column(table, "request_id"), column(table, "sample_index").astype(np.int64)
    if len(np.unique(first_rows)) != len(first_rows):
        raise LoadError("The load sent a sample twice; the answers can't be told apart")
    status, names = codes(table, "status")
    counts = {name: int((status == at).sum()) for at, name in enumerate(names)}
    kept = read_kept([plan.answers_path(shard) for shard in range(plan.shards)])
    size = plan.batches[0].batch_size
    ids = kept.request_id[::size]
    if not np.array_equal(np.repeat(ids, size), kept.request_id):
        raise LoadError(f"Some answers to {size} samples do not have {size} rows")
    place = {int(request): at for at, request in enumerate(request_ids)}
    at = np.array([place[int(request)] for request in ids], dtype=np.int64)
    done_ns, intended_ns = column(table, "done_ns"), column(table, "intended_ns")
    return _Found(
        first_rows=first_rows,
        good_rows=first_rows[at],
        latency_ms=(done_ns[at] - intended_ns[at]) / 1e6,
        outputs=kept.outputs,
        statuses={name: count for name, count in counts.items() if count and name != "ok"},
    )
