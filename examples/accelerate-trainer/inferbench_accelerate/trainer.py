"""Trainings by ``accelerate.Accelerator``, started by torchrun, as Accelerate's own guide does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.trainers.base import PATIENCE, Trainer


class AccelerateTrainer(Trainer):
    kind = "accelerate"
    package = "accelerate"

    @classmethod
    def problems(cls, job: TrainingJob) -> Iterator[tuple[str, str]]:
        if job.train.precision == "fp16":
            yield "train.precision", "accelerate scales the loss by itself: give fp32, tf32 or bf16 here"

    def begin(self) -> None:
        from accelerate import Accelerator, InitProcessGroupKwargs

        on_cpu = self.job.devices.kind.kind == "cpu"
        group = InitProcessGroupKwargs(backend=self.job.devices.exchange, timeout=PATIENCE)
        self.accelerator = Accelerator(cpu=on_cpu, kwargs_handlers=[group] if self.several else [])

    def end(self) -> None:
        self.accelerator.end_training()
        if self.several:
            self.accelerator.state.destroy_process_group()

    def network(self, module: Any) -> Any:
        return self.accelerator.prepare_model(module)

    def exchange(self, network: Any) -> Exchange | None:
        import torch

        # Of a group of one Accelerate leaves the network as it is.
        ddp = isinstance(network, torch.nn.parallel.DistributedDataParallel)
        return Exchange(network, statistics=self.statistics_timed) if ddp else None

    def optimiser(self, optimiser: Any) -> Any:
        return self.accelerator.prepare_optimizer(optimiser)

    def backward(self, loss: Any) -> None:
        self.accelerator.backward(loss)

    def barrier(self) -> None:
        self.accelerator.wait_for_everyone()

    def total(self, tensor: Any) -> Any:
        return self.accelerator.reduce(tensor, reduction="sum")

    def gather(self, tensor: Any) -> Sequence[Any]:
        gathered: Any = self.accelerator.gather(tensor)
        return gathered.chunk(self.world)  # type: ignore[no-any-return]
