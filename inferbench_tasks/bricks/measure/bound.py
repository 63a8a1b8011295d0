"""One network with its inputs and outputs in place, timed warm and streamed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.bricks.measure.method import FEWEST_RUNS
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_of
from inferbench_tasks.contracts.arrays import Arrays

#: Before a network is timed it runs so often, or, where a run takes long, until so much time is over, but once at
#: least: one run of a large network fills the caches with its own.
WARM_UPS, WARM_UP_S = 3, 0.05
#: Where runtimes let their own buffers begin, bytes. numpy promises 16 only, which differs from process to process
#: and makes some layers about 5% slower than within a model.
ALIGNMENT_BYTES = 64
_WORD_BYTES = 8


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

    def warm_ns(self, runs: int, budget_s: float, within_ratio: float = 0.0) -> list[int]:
        """Run after run, after some that are not timed: weights and activations lie where they lay.

        ``within_ratio``: see ``Method``.
        """
        warmed_up(self._run)
        enough = _Enough(runs, budget_s, within_ratio)
        return self._bursts(enough) if self._loaded.bursts else self._timed(enough, lambda: None)

    def streamed_ns(
        self, runs: int, budget_s: float, sweep: np.ndarray[Any, Any], within_ratio: float = 0.0
    ) -> list[int]:
        """Before each run the caches are filled with ``sweep``, then inputs and outputs are read: as in the middle of a
        model, whose weights are not in the core's cache and whose activations are."""
        enough = _Enough(runs, budget_s, within_ratio)
        if self._loaded.bursts:
            return self._timed(enough, self._loaded.cool)
        views = [_numbers(value) for value in self._values.values()]

        def before() -> None:
            sweep.sum()
            for view in views:
                view.sum()

        return self._timed(enough, before)

    def _bursts(self, enough: _Enough) -> list[int]:
        """Of several runs in a row, as many such as runs are asked for."""
        times: list[int] = []
        self.device_ns = []
        while not enough(times):
            wall_ns, device_ns = self._loaded.burst_ns()
            times.append(wall_ns)
            if device_ns is not None:
                self.device_ns.append(device_ns)
        return times

    def _timed(self, enough: _Enough, before: Any) -> list[int]:
        times: list[int] = []
        while not enough(times):
            before()
            begin_ns = time.perf_counter_ns()
            self._run()
            times.append(time.perf_counter_ns() - begin_ns)
        return times


def warmed_up(run: Callable[[], None]) -> int:
    """The runs before those that are timed; how many they were."""
    end_ns = time.monotonic_ns() + int(WARM_UP_S * 1e9)
    done = 0
    while not done or (done < WARM_UPS and time.monotonic_ns() < end_ns):
        run()
        done += 1
    return done


class _Enough:
    """Whether a round of a network has been timed for long enough; its time begins here."""

    def __init__(self, runs: int, budget_s: float, within_ratio: float) -> None:
        self._runs, self._within_ratio = runs, within_ratio
        self._end_ns = time.monotonic_ns() + int(budget_s * 1e9)

    def __call__(self, times: Sequence[int]) -> bool:
        count = len(times)
        if count < min(FEWEST_RUNS, self._runs):
            return False
        if count >= self._runs or time.monotonic_ns() >= self._end_ns:
            return True
        # After 5, 10, 20, 40 ... runs: to look at them moves what lies in the caches.
        times_five, rest = divmod(count, FEWEST_RUNS)
        if not self._within_ratio or rest or times_five.bit_count() != 1:
            return False
        from inferbench_tasks.bricks.measure.precise import half_width_ratio

        return half_width_ratio(times) <= self._within_ratio


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
    """An array's memory as whole words (of less than one its bytes): reading it is what matters, and byte by byte that
    takes seven times as long. What is left over after the last word lies beside it."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = len(flat) // _WORD_BYTES * _WORD_BYTES
    return flat[:words].view(np.uint64) if words else flat
