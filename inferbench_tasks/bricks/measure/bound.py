"""One network with its inputs and outputs in place, timed warm and streamed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.bricks.measure.method import FEWEST_RUNS
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_of
from inferbench_tasks.contracts.arrays import Arrays

WARM_UPS = 3
#: Where runtimes let their own buffers begin, bytes. numpy promises 16 only, which differs from process to process
#: and makes some layers about 5% slower than within a model.
ALIGNMENT_BYTES = 64


class BoundNetwork:
    """``whole``: a model as it is served, else a brick. ``onto``: (output, input) by position, of outputs that are
    written onto that input, as they are within the model: a convolution that adds onto a tensor would first copy it,
    which no model pays.

    Nothing is allocated while it runs. Raises ValueError where the network answers with NaN that it was not fed.
    """

    def __init__(
        self,
        path: Path,
        feeds: Arrays,
        *,
        threads: int,
        whole: bool,
        onto: Sequence[tuple[int, int]] = (),
        runtime: str = DEFAULT,
    ) -> None:
        feeds = {name: aligned(array) for name, array in feeds.items()}
        self._loaded = runtime_of(runtime).open(path, feeds, threads=threads, whole=whole)
        self._run = self._loaded.run
        answers = self._loaded.answers(feeds)
        fed_nan = any(_has_nan(array) for array in feeds.values())
        if not fed_nan and any(_has_nan(array) for array in answers):
            raise ValueError("it answers with NaN")
        room = [aligned(np.zeros_like(answer)) for answer in answers]
        bound = self._loaded.bind(feeds, room, onto) or []
        names = [*feeds, *(output_name(index) for index in range(len(answers)))]
        self._values = dict(zip(names, bound, strict=False))
        #: Of the runs that were timed warm last, by the device's own clock where it has one.
        self.device_ns: list[int] = []

    def numbers(self, name: str) -> np.ndarray[Any, Any]:
        """What is bound to an input, or to an output (``output_name``), as it is now."""
        return self._values[name]

    def warm_ns(self, runs: int, budget_s: float) -> list[int]:
        """Run after run, after some that are not timed: weights and activations lie where they lay."""
        for _ in range(WARM_UPS):
            self._run()
        if self._loaded.bursts:
            return self._bursts(runs, budget_s)
        return self._timed(runs, budget_s, lambda: None)

    def streamed_ns(self, runs: int, budget_s: float, sweep: np.ndarray[Any, Any]) -> list[int]:
        """Before each run the caches are filled with ``sweep``, then inputs and outputs are read: as in the middle of a
        model, whose weights are not in the core's cache and whose activations are."""
        if self._loaded.bursts:
            return self._timed(runs, budget_s, self._loaded.cool)
        views = [_numbers(value) for value in self._values.values()]

        def before() -> None:
            sweep.sum()
            for view in views:
                view.sum()

        return self._timed(runs, budget_s, before)

    def _bursts(self, runs: int, budget_s: float) -> list[int]:
        """Of several runs in a row, as many such as runs are asked for."""
        times: list[int] = []
        self.device_ns = []
        end_ns = time.monotonic_ns() + int(budget_s * 1e9)
        while len(times) < runs and (len(times) < FEWEST_RUNS or time.monotonic_ns() < end_ns):
            wall_ns, device_ns = self._loaded.burst_ns()
            times.append(wall_ns)
            if device_ns is not None:
                self.device_ns.append(device_ns)
        return times

    def _timed(self, runs: int, budget_s: float, before: Any) -> list[int]:
        times: list[int] = []
        end_ns = time.monotonic_ns() + int(budget_s * 1e9)
        while len(times) < runs and (len(times) < FEWEST_RUNS or time.monotonic_ns() < end_ns):
            before()
            begin_ns = time.perf_counter_ns()
            self._run()
            times.append(time.perf_counter_ns() - begin_ns)
        return times


def output_name(index: int) -> str:
    """What an output's value is called here: names of outputs may be those of inputs."""
    return f"out {index}"


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that begins where a buffer of the runtime would; texts and empty arrays as they are."""
    if array.dtype.kind in "OUS" or not array.nbytes:
        return array
    room = np.empty(array.nbytes + ALIGNMENT_BYTES, np.uint8)
    start = -room.ctypes.data % ALIGNMENT_BYTES
    copy: np.ndarray[Any, Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _has_nan(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and bool(np.isnan(array).any())


def _numbers(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array, as words where they fill such: reading them is what matters."""
    return np.frombuffer(np.ascontiguousarray(array).view(np.uint8).reshape(-1), np.uint8)
