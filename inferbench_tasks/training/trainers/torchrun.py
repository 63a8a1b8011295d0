"""torch's own way: torchrun, DistributedDataParallel, and the process group's gloo or nccl."""

from __future__ import annotations

from typing import Any, ClassVar

from inferbench_tasks.training.exchange import Exchange
from inferbench_tasks.training.trainers.base import PATIENCE, Trainer


class Torchrun(Trainer):
    """One process for each rank; gradients are exchanged while they are computed, bucket by bucket."""

    kind: ClassVar[str] = "torchrun"
    package: ClassVar[str] = "torch"
    over_hosts: ClassVar[bool] = True

    def begin(self) -> None:
        """A process group, where there is an exchange."""
        if self.several:
            import torch

            torch.distributed.init_process_group(self.job.devices.exchange, timeout=PATIENCE)

    def end(self) -> None:
        """The group ends with its last rank."""
        if self.several:
            import torch

            torch.distributed.destroy_process_group()

    def network(self, module: Any) -> Any:
        """DistributedDataParallel around it."""
        import torch

        return torch.nn.parallel.DistributedDataParallel(module)

    def exchange(self, network: Any) -> Exchange:
        """The reducer's own clocks."""
        return Exchange(network, statistics=self.statistics_timed)

    def barrier(self) -> None:
        """nccl's is on the rank's GPU."""
        import torch

        index = torch.device(self.device).index
        torch.distributed.barrier(device_ids=[index] if self.job.devices.exchange == "nccl" else None)

    def total(self, tensor: Any) -> Any:
        """In place."""
        import torch

        torch.distributed.all_reduce(tensor)
        return tensor

    def gather(self, tensor: Any) -> list[Any]:
        """By rank."""
        import torch

        answers = [torch.empty_like(tensor) for _ in range(self.world)]
        torch.distributed.all_gather(answers, tensor)
        return answers
