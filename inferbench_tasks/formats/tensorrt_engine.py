"""Running a TensorRT engine; its buffers are PyTorch's, on the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError


class TensorRtRunner:
    """One execution context on one stream. Raises InputError where the engine is not for this GPU or version."""

    def __init__(self, path: str, outputs: list[str]) -> None:
        import tensorrt as trt
        import torch

        if not torch.cuda.is_available():
            raise InputError(f"The TensorRT engine needs a GPU, and PyTorch {torch.__version__} sees none")
        self._torch, self._trt = torch, trt
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
        self._engine: Any = self._runtime.deserialize_cuda_engine(Path(path).read_bytes())
        if self._engine is None:
            raise InputError(f"The TensorRT engine {path} was built for another GPU or version of TensorRT")
        self._context: Any = self._engine.create_execution_context()
        self._stream: Any = torch.cuda.Stream()
        names = [self._engine.get_tensor_name(at) for at in range(self._engine.num_io_tensors)]
        engine_outputs = [n for n in names if self._engine.get_tensor_mode(n) == trt.TensorIOMode.OUTPUT]
        if len(engine_outputs) != len(outputs):
            raise InputError(f"The TensorRT engine gives {engine_outputs}, the model {outputs}")
        self._outputs = dict(
            zip(outputs, outputs if set(outputs) == set(engine_outputs) else engine_outputs, strict=True)
        )

    def run(self, inputs: Arrays) -> Arrays:
        """Outputs by name; returns when the GPU is done."""
        torch = self._torch
        buffers = []
        with torch.cuda.stream(self._stream):
            for name, array in inputs.items():
                buffer = torch.from_numpy(np.ascontiguousarray(array)).cuda(non_blocking=True)
                if not self._context.set_input_shape(name, tuple(buffer.shape)):
                    raise InputError(
                        f"inputs.{name}: shape {list(array.shape)} is outside of the engine's profile"
                    )
                self._context.set_tensor_address(name, buffer.data_ptr())
                buffers.append(buffer)
            answers = {}
            for name, own in self._outputs.items():
                dtype = getattr(torch, np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(own))).name)
                answers[name] = torch.empty(
                    tuple(self._context.get_tensor_shape(own)), dtype=dtype, device="cuda"
                )
                self._context.set_tensor_address(own, answers[name].data_ptr())
            if not self._context.execute_async_v3(self._stream.cuda_stream):
                raise RuntimeError("TensorRT could not execute the engine")
        self._stream.synchronize()
        return {name: answer.cpu().numpy() for name, answer in answers.items()}
