"""Part of ``evaluate``: each sample of a set is asked once, by a load's scenario or one by one, and its answer kept.

A scenario offers so many requests in its time; where the set has more samples, it begins again with those that are
left. Samples of one request are answered together. What got no answer is told, and asked no second time. MLPerf LoadGen
asks in its accuracy mode, see ``asked_by_loadgen``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from inferbench_tasks.loadgen.mlperf_accuracy import accuracy_plan
from inferbench_tasks.loadgen.plan import BatchShare, LoadPlan, OutputShape
from inferbench_tasks.loadgen.prepare import prepare
from inferbench_tasks.loadgen.records import codes, column, read_samples
from inferbench_tasks.requests.ragged import packed
from inferbench_tasks.stages.asked_by_loadgen import ENGINE, AccuracyTests
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
    without an answer. ``statuses``: kind of failure -> samples. ``passes``: how often the scenario ran. ``loadgen``:
    MLPerf LoadGen's own log of them, where it asked.
    """

    outputs: Arrays
    answered: NDArray[np.bool_]
    latency_ms: NDArray[np.float64]
    statuses: dict[str, int]
    passes: int
    loadgen: AccuracyTests | None = field(default=None, repr=False)

    @property
    def unanswered(self) -> int:
        """How many samples have no answer."""
        return int((~self.answered).sum())


def one_by_one(load: LoadSpec) -> LoadSpec:
    """The load with one user, who asks one sample and waits, until all are asked."""
    return load.model_copy(
        update={
            "arrivals": ClosedLoop(kind="closed_loop", concurrency=1),
            "engine": "inferbench",
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
    target_latency_ms: float | None = None,
    logs: Path | None = None,
    asking: Asking = lambda asked, total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Asked:
    """Ask every sample once. ``reference``: an answer's names, types and shapes. ``target_latency_ms``: what MLPerf
    LoadGen is told of the bound of its server scenario; ``logs``: where its logs are kept, nowhere if None.

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
    loadgen = AccuracyTests(total, logs) if load.engine == ENGINE else None
    while left.any():
        before = total - int(left.sum())
        asking(before, total)
        rows, size = _of_pass(np.flatnonzero(left), samples, load.samples_per_request)
        part = {name: array[rows] for name, array in samples.items()}
        plan = _plan(load, part, size, shapes, endpoint, folder, base_dir, target_latency_ms)
        found = _apply(plan, folder, cancelled, _told(asking, before, size, total))
        if loadgen is not None:
            loadgen.add(Path(plan.folder), rows)
        if not found.asked.size:
            raise LoadError(f"The {load.arrivals.kind} load asked nothing in {load.duration_s:g} s")
        # LoadGen's test is of all its samples: what it did not ask is missing in its log, and no second test hides it.
        left[rows if loadgen is not None else rows[found.asked]] = False
        for status, count in found.statuses.items():
            statuses[status] = statuses.get(status, 0) + count * size
        good = rows[found.good]
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
    return Asked(outputs, answered, latency_ms, statuses, passes, loadgen)


@dataclass(frozen=True)
class _Found:
    """Of one pass: the rows of every request that was sent; those of the good ones, in the order of their answers, with
    a latency for each request.
    """

    asked: NDArray[np.int64]
    good: NDArray[np.int64]
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
    total = len(next(iter(samples.values())))
    row_bytes = max(1, sum(array.nbytes for array in packed(samples).values()) // total)
    most = max(1, _PASS_BYTES // row_bytes)
    size = min(size, len(left))
    return left[: max(1, min(most, len(left)) // size) * size], size


def _samples_of(first_rows: NDArray[np.int64], plan: LoadPlan) -> NDArray[np.int64]:
    """The rows of requests that begin at these: neighbours, but of LoadGen's requests, which are written down."""
    if plan.groups_path.exists():
        groups: NDArray[np.int64] = np.load(plan.groups_path, allow_pickle=False)
        place = {int(rows[0]): at for at, rows in enumerate(groups)}
        return groups[[place[int(row)] for row in first_rows]].reshape(-1)
    rows: NDArray[np.int64] = first_rows[:, None] + np.arange(plan.batches[0].batch_size)[None, :]
    return rows.reshape(-1)


def _plan(
    load: LoadSpec,
    samples: Arrays,
    size: int,
    shapes: dict[str, OutputShape],
    endpoint: Endpoint,
    folder: Path,
    base_dir: Path,
    target_latency_ms: float | None,
) -> LoadPlan:
    """One sender's orders for exactly these requests, each once; without a warm-up, never ended for its failures."""
    inputs = emptied(folder) / "inputs.npz"
    write_archive(inputs, packed(samples))
    total = len(next(iter(samples.values())))
    requests, by_loadgen = total // size, load.engine == ENGINE
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
        target_latency_ms=target_latency_ms,
        in_order=by_loadgen and size == 1,
    )
    plan = plan.model_copy(update={"keep_answers": True})
    return accuracy_plan(plan, total) if by_loadgen else plan


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
        asked=_samples_of(first_rows, plan),
        good=_samples_of(first_rows[at], plan),
        latency_ms=(done_ns[at] - intended_ns[at]) / 1e6,
        outputs=kept.outputs,
        statuses={name: count for name, count in counts.items() if count and name != "ok"},
    )
