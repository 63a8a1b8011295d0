"""ONNX Runtime on an NVIDIA GPU by its CUDA provider. Written without a GPU: nothing of it has run on one.

The graph that is cut has ONNX Runtime's fusions without layouts (``ORT_ENABLE_EXTENDED``), made on the host: cutting
needs no GPU, and what the CUDA provider writes of its own graph has copies between host and device that can't be loaded
again. Half precision is not there for the same reason: the host's graph of it computes in fp32. A brick is run on the
GPU alone: one that would fall back to the host is an error and no time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import onnx_ir as ir

from inferbench_tasks.bricks.runtimes.base import BrickRuntime, Loaded
from inferbench_tasks.bricks.runtimes.device_session import DeviceSession, Stream
from inferbench_tasks.bricks.runtimes.onnxruntime import open_network, optimised_graph, session_options
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.monitors.environment import gpu_used

#: In place of a processor's instruction set: the graph is the same for every GPU.
CUDA = "cuda"
#: Of the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, the first.
_FIRST = "0"


class OnnxRuntimeCuda(BrickRuntime):
    """The first GPU that ``CUDA_VISIBLE_DEVICES`` leaves; its name is the setting's processor.

    Not its UUID: two GPUs of one name share times as two processors do, and which one was leased stands in the run.
    """

    name = "onnxruntime-cuda"
    title = "ONNX Runtime's CUDA provider"
    device = "gpu"
    #: Those that execute, the first one first; of a whole model the host executes what they have not.
    providers: ClassVar[tuple[str, ...]] = ("CUDAExecutionProvider",)

    def version(self) -> str:
        """Of ONNX Runtime, and of the CUDA that it was built for."""
        import onnxruntime

        cuda = getattr(onnxruntime, "cuda_version", "") or "unknown"
        return f"{onnxruntime.__version__} (CUDA {cuda})"

    def unavailable(self) -> str | None:
        """Why it can't be used here, with what helps."""
        import onnxruntime

        if missing := [name for name in self.providers if name not in onnxruntime.get_available_providers()]:
            return (
                f"the ONNX Runtime here has no {', '.join(missing)}: install onnxruntime-gpu in place of onnxruntime, "
                "on a machine with an NVIDIA GPU"
            )
        if gpu_used(os.getpid()) is None:
            return (
                "no NVIDIA GPU is known here: install inferbench[gpu] beside its driver, and of several GPUs name one "
                "by its UUID in CUDA_VISIBLE_DEVICES"
            )
        return None

    def require(self) -> None:
        """InputError with what is missing."""
        if (why := self.unavailable()) is not None:
            raise InputError(f"{self.name} can't be used here: {why}", field="runtime")

    def processor(self) -> str:
        """The GPU's name, as NVML has it. InputError where there is none."""
        gpu = gpu_used(os.getpid())
        if gpu is None:
            raise InputError(str(self.unavailable()), field="runtime")
        return str(gpu["name"])

    def instruction_set(self) -> str:
        """``cuda``: graphs are of no one GPU."""
        return CUDA

    def optimised(self, path: Path, view: str) -> Path:
        """With fusions, without layouts; made on the host."""
        return path if view == "source" else optimised_graph(path, "ORT_ENABLE_EXTENDED")

    def answers(self, network: ir.Model, feeds: Arrays) -> list[Array]:
        """On the host: that a model was cut right is a matter of its graph, and a GPU rounds otherwise (TF32)."""
        return list(open_network(network).run(None, feeds))

    def open(self, path: Path, feeds: Arrays, *, threads: int, whole: bool) -> Loaded:
        """A session. RuntimeError where ONNX Runtime would run it on the host instead."""
        stream = Stream()
        return DeviceSession(self._session(path, stream.options(), threads=threads, whole=whole), stream)

    def _session(self, path: Path, options_of_provider: dict[str, str], *, threads: int, whole: bool) -> Any:
        import onnxruntime as ort

        options = session_options(threads=threads, optimise=whole)
        given = {"device_id": _FIRST, **options_of_provider}
        providers: Sequence[Any] = [(name, given) for name in self.providers]
        if whole:
            providers = [*providers, "CPUExecutionProvider"]
        else:
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session: Any = ort.InferenceSession(str(path), options, providers=providers)
        if self.providers[0] not in session.get_providers():
            raise RuntimeError(f"{self.providers[0]} was asked for, but ONNX Runtime runs on the host here")
        return session
