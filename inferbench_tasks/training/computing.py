"""How a rank computes: on which device, in which precision, with which optimiser."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.training.job import TrainingJob


class Computing:
    """``device``: torch's name of it. Process-wide settings (products in TF32 or in full) are set here."""

    def __init__(self, job: TrainingJob, device: str) -> None:
        import torch

        self._train = job.train
        self.device = torch.device(device)
        autocast = {"bf16": torch.bfloat16, "fp16": torch.float16}
        self._dtype = autocast.get(job.train.precision)
        # A setting of each thread, which those that it starts later have from it: torch's own begin with their work.
        if job.train.flush_denormals and not torch.set_flush_denormal(True):
            raise InputError(
                "this processor can't take denormal numbers for 0: leave it out",
                field="train.flush_denormals",
            )
        self._scaler = torch.amp.GradScaler(self.device.type) if job.train.precision == "fp16" else None
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            # torch takes TF32 for convolutions unless it is told not to: fp32 is to be what it says.
            torch.backends.cuda.matmul.allow_tf32 = job.train.precision == "tf32"
            torch.backends.cudnn.allow_tf32 = job.train.precision == "tf32"

    def synchronise(self) -> None:
        """Wait until the device has done what it was told; a CPU has, always."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def place(self, tensor_or_module: Any) -> Any:
        """A network or a batch of images where it is computed, in its memory format.

        A pinned batch is copied while the device computes.
        """
        if self.device.type == "cpu" and not self._train.channels_last:
            return tensor_or_module  # it is there
        import torch

        how: dict[str, Any] = {}
        if self._train.channels_last and _has_four_axes(tensor_or_module):
            how["memory_format"] = torch.channels_last
        return tensor_or_module.to(self.device, non_blocking=self.device.type == "cuda", **how)

    def compiled(self, network: Any) -> Any:
        """The network by torch.compile where it was asked for."""
        import torch

        return torch.compile(network) if self._train.compile else network

    def autocast(self) -> AbstractContextManager[Any]:
        """In it forward and loss are computed in the job's precision."""
        if self._dtype is None:
            return nullcontext()
        import torch

        context: AbstractContextManager[Any] = torch.autocast(self.device.type, self._dtype)
        return context

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        """The job's, with its settings."""
        import torch

        train = self._train
        if train.optimiser == "sgd":
            return torch.optim.SGD(parameters, lr=train.learning_rate, momentum=train.momentum)
        return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[train.optimiser](
            parameters, lr=train.learning_rate
        )

    def scaled(self, loss: Any) -> Any:
        """The loss that gradients are taken of: larger in fp16, whose small ones would be 0."""
        return loss if self._scaler is None else self._scaler.scale(loss)

    def backward(self, loss: Any) -> None:
        """Gradients of the loss of a network without any exchange."""
        self.scaled(loss).backward()

    def step(self, optimiser: Any) -> None:
        """A step of the optimiser; the gradients are empty afterwards."""
        if self._scaler is None:
            optimiser.step()
        else:
            self._scaler.step(optimiser)
            self._scaler.update()
        optimiser.zero_grad(set_to_none=True)


def _has_four_axes(of: Any) -> bool:
    return not hasattr(of, "dim") or of.dim() == 4
