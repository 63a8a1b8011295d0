"""A session whose inputs and outputs lie on a GPU, and how its runs are timed there.

The device works on while the host goes on: a time is that of one of several runs in a row between two synchronisations.
Where the device was busy for less than the host took, the launches of kernels bound it; what the device took itself, by
its events, stands beside the wall's time. Written without a GPU: nothing of it has run on one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from inferbench_tasks.bricks.runtimes.base import Loaded
from inferbench_tasks.contracts.arrays import Array, Arrays

#: Between two synchronisations.
RUNS_IN_A_ROW = 10
#: More than any GPU's second cache holds (126 MB is the largest of today), read and written anew.
SWEEP_BYTES = 256 << 20
_DEVICE = "cuda", 0


class Stream:
    """What kernels are sent to and events are recorded in: one of torch's, where torch with CUDA is there."""

    def __init__(self) -> None:
        self._torch = _torch()
        if self._torch is not None:
            self._stream = self._torch.cuda.Stream()
            self._began, self._ended = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))

    def options(self) -> dict[str, str]:
        """Of a provider that is to use it: events tell nothing of another stream."""
        return {} if self._torch is None else {"user_compute_stream": str(self._stream.cuda_stream)}

    def begin(self) -> None:
        """What is sent from now on is timed."""
        if self._torch is not None:
            self._began.record(self._stream)

    def end(self) -> None:
        """What is sent from now on is not."""
        if self._torch is not None:
            self._ended.record(self._stream)

    def ns(self) -> float | None:
        """Between the two on the device, once it is synchronised; None where no torch with CUDA has events."""
        return None if self._torch is None else float(self._began.elapsed_time(self._ended)) * 1e6


class DeviceSession(Loaded):
    """``session``: ONNX Runtime's, on the stream."""

    bursts = True

    def __init__(self, session: Any, stream: Stream) -> None:
        import onnxruntime as ort

        self._session, self._stream = session, stream
        self._outputs = [output.name for output in session.get_outputs()]
        self._binding: Any = session.io_binding()
        self._inputs: list[tuple[Any, Array]] = []
        #: Runs that do not wait for the device.
        self._going_on: Any = ort.RunOptions()
        self._going_on.add_run_config_entry("disable_synchronize_execution_providers", "1")

    def answers(self, feeds: Arrays) -> list[Array]:
        """Copied to the host."""
        return list(self._session.run(self._outputs, feeds))

    def bind(
        self, feeds: Arrays, answers: Sequence[Array], onto: Sequence[tuple[int, int]]
    ) -> list[Array] | None:
        """On the device: none of them is an array of the host's. ValueError for texts."""
        import onnxruntime as ort

        if any(array.dtype.kind in "OUS" for array in (*feeds.values(), *map(np.asarray, answers))):
            raise ValueError("bricks on a GPU take no texts")
        inputs = [ort.OrtValue.ortvalue_from_numpy(array, *_DEVICE) for array in feeds.values()]
        self._inputs = list(zip(inputs, feeds.values(), strict=True))
        for name, value in zip(feeds, inputs, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        targets, outputs = dict(onto), []
        for index, (name, answer) in enumerate(zip(self._outputs, answers, strict=True)):
            made = ort.OrtValue.ortvalue_from_shape_and_type
            value = inputs[targets[index]] if index in targets else made(answer.shape, answer.dtype, *_DEVICE)
            outputs.append(value)
            self._binding.bind_ortvalue_output(name, value)
        self._kept = [*inputs, *outputs]  # the binding does not keep them
        self._binding.synchronize_inputs()
        return None

    def bound_answers(self) -> list[Array]:
        """What the last run wrote, copied to the host."""
        return list(self._binding.copy_outputs_to_cpu())

    def run(self) -> None:
        """One, until the device has done it."""
        self._session.run_with_iobinding(self._binding)
        self._binding.synchronize_outputs()

    def burst_ns(self) -> tuple[int, int | None]:
        """One of ``RUNS_IN_A_ROW``: by the wall, and by the device's events."""
        self._binding.synchronize_outputs()
        began_ns = time.perf_counter_ns()
        self._stream.begin()
        for _ in range(RUNS_IN_A_ROW):
            self._session.run_with_iobinding(self._binding, self._going_on)
        self._stream.end()
        self._binding.synchronize_outputs()
        wall_ns = (time.perf_counter_ns() - began_ns) // RUNS_IN_A_ROW
        device_ns = self._stream.ns()
        return wall_ns, None if device_ns is None else round(device_ns / RUNS_IN_A_ROW)

    def cool(self) -> None:
        """The device's cache is filled by a buffer of its own, then the inputs are written anew: weights are not in it,
        activations are."""
        _sweep().run()
        for value, array in self._inputs:
            value.update_inplace(array)
        self._binding.synchronize_inputs()


@cache
def _sweep() -> DeviceSession:
    """A sum over the buffer, into another."""
    import onnx
    import onnxruntime as ort
    from onnx import parser

    count = SWEEP_BYTES // 4
    model = parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17]> sweep (float[{count}] x) => (float[{count}] y) {{ y = Add (x, x) }}'
    )
    with TemporaryDirectory(prefix="inferbench-sweep-") as folder:
        path = Path(folder) / "sweep.onnx"
        onnx.save(model, path)
        session = ort.InferenceSession(str(path), providers=["CUDAExecutionProvider"])
    loaded = DeviceSession(session, Stream())
    numbers = np.ones(count, np.float32)
    loaded.bind({"x": numbers}, [numbers], ())
    return loaded


def _torch() -> Any:
    """The module, where it has CUDA; None else."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None
