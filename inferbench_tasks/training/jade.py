"""BenchmarkJade's timing, by its own definition: what its published tables hold, to be set beside the true phases.

Wall clock only, read behind a barrier of all ranks: nothing of ``strategy: single``, which waits for no device; nccl's,
which waits for the device, of ``ddp``, be it of one rank, as BenchmarkJade's is unless it is told otherwise. Loading
counts from the end of the step before, the start of the loader's processes in the first; forward holds the loss,
backward the optimiser; in smooth inference nothing is waited for behind the forward pass; means are over all steps, the
first and the last with them, and are those of rank 0. Source: the loops of BenchmarkJade's ``train.py``,
``inference.py`` and ``smooth_inference.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from inferbench_tasks.training.order import Epoch
from inferbench_tasks.training.phases import HEAD, MEASURED, NoInstrument, phases_of
from inferbench_tasks.training.statistics import LEAST_STEPS

#: benchmark -> its columns, and the phase that each of them ends with.
_ENDS: Final = {
    "train": {"loading": "to_device", "forward": "loss", "backward": "optimiser"},
    "inference": {"loading": "to_device", "forward": "forward"},
    "smooth_inference": {"loading": "loading", "processing": "processing", "forward": "forward"},
}
COLUMNS: Final = ("loading", "processing", "forward", "backward")


class JadeTimes(NoInstrument):
    """One reading of the clock at the end of each of its columns, behind ``barrier``."""

    def __init__(self, benchmark: str, strategy: str, barrier: Callable[[], None]) -> None:
        ends = dict(_ENDS[benchmark])
        phases = phases_of(benchmark, strategy)
        if "gather" in phases:
            ends["forward"] = "gather"
        self.rows = []
        self.columns = [*HEAD, *(f"{column}_ns" for column in ends)]
        self._ends = [phase in ends.values() for phase in phases]
        self._barriers = [benchmark != "smooth_inference" or phase != ends["forward"] for phase in phases]
        self._barrier = barrier
        self._last_ns = 0
        self._phase = 0
        self._row: list[int | None] = []
        self._start_ns = 0

    def epoch_begins(self) -> None:
        """The first batch's loading counts from here."""
        self._barrier()
        self._last_ns = time.monotonic_ns()

    def step_begins(self) -> None:
        """A new row, from the end of the one before."""
        self._row, self._phase, self._start_ns = [], 0, self._last_ns

    def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """The work of the next phase; a column ends with some of them."""
        result = work(*arguments)
        phase = self._phase
        self._phase += 1
        if self._ends[phase]:
            if self._barriers[phase]:
                self._barrier()
            now_ns = time.monotonic_ns()
            self._row.append(now_ns - self._last_ns)
            self._last_ns = now_ns
        return result

    def step_ends(self, step: int, samples: int, part: int, loader_ns: Sequence[int | None] = ()) -> None:
        """The row is whole."""
        self.rows.append([step, part, samples, self._start_ns, self._last_ns - self._start_ns, *self._row])


def of_epochs(epochs: Sequence[Epoch]) -> dict[str, Any]:
    """Jade's columns, seconds as in its tables: the mean over rank 0's epochs of this timing.

    ``columns``: name -> mean over all steps; ``without_warmup``: the same over the measured steps alone. ``step_s``:
    sum of the columns. ``epoch_s``: from before the first step to the end of all ranks. ``explained_ratio``: the
    columns' sum over all steps by that time.
    """
    counts = [len(epoch.rows) for epoch in epochs]
    if sum(counts) < LEAST_STEPS:
        reason = f"{sum(counts)} steps are too few for a figure, which needs {LEAST_STEPS}"
        nothing = {"columns": None, "without_warmup": None, "step_s": None, "epoch_s": None}
        return {"steps": sum(counts), **nothing, "explained_ratio": None, "reason": reason}
    names = [name.removesuffix("_ns") for name in epochs[0].columns[len(HEAD) :]]
    whole = [_means_s(epoch.rows, len(names)) for epoch in epochs]
    measured = [
        _means_s([row for row in epoch.rows if row[HEAD.index("part")] == MEASURED], len(names))
        for epoch in epochs
    ]
    columns = {name: _mean([means[at] for means in whole]) for at, name in enumerate(names)}
    epoch_s = _mean([((epoch.ended_ns or epoch.started_ns) - epoch.started_ns) / 1e9 for epoch in epochs])
    step_s = sum(columns.values())
    return {
        "steps": sum(counts),
        "columns": columns,
        "without_warmup": {name: _mean([means[at] for means in measured]) for at, name in enumerate(names)}
        if all(measured)
        else None,
        "step_s": step_s,
        "epoch_s": epoch_s,
        "explained_ratio": step_s * _mean([float(count) for count in counts]) / epoch_s,
        "reason": None,
    }


def _means_s(rows: Sequence[Sequence[int | None]], columns: int) -> list[float]:
    if not rows:
        return []
    return [_mean([float(row[len(HEAD) + at] or 0) for row in rows]) / 1e9 for at in range(columns)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
