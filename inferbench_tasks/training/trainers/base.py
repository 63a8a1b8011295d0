"""What an engine that trains has to say and do; the measuring around it is the same for all of them.

InferBench makes network, data set, loader, optimiser and loss, times the phases and judges the run. The trainer says
how the ranks are started, puts the exchange of gradients around the network, and does what one rank can't do alone.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from inferbench_tasks.registry import Registry
from inferbench_tasks.training.hosts.meeting import Meeting
from inferbench_tasks.training.job import TrainingJob

if TYPE_CHECKING:
    from inferbench_tasks.training.exchange import Exchange

#: A rank that does not answer for so long has failed, and the job with it.
PATIENCE: Final = timedelta(seconds=120)


class Trainer(ABC):
    """One rank's engine. An instance is made in each rank, once its cores are its own; what is said of a job before
    that is said by the class, without importing what the engine needs.

    ``package``: the distribution whose version is kept with each result. ``over_hosts``: whether its ranks may be of
    two hosts, each of which starts its own by ``command_of_host``.
    """

    kind: ClassVar[str]
    package: ClassVar[str]
    over_hosts: ClassVar[bool] = False

    @classmethod
    def problems(cls, job: TrainingJob) -> Iterable[tuple[str, str]]:
        """(dotted field, what is wrong with it and what is allowed) of a job that this engine can't do."""
        return ()

    @classmethod
    def command(cls, job: TrainingJob, program: Sequence[str]) -> tuple[str, ...]:
        """What starts all ranks on this host: each runs ``python PROGRAM``, and finds RANK and WORLD_SIZE in its
        environment. By default torchrun, which chooses a port of the loopback where they meet and ends all with one.
        """
        return (
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1",
            "--nproc-per-node", str(job.devices.ranks), "--max-restarts", "0", *program,
        )  # fmt: skip

    @classmethod
    def command_of_host(cls, job: TrainingJob, program: Sequence[str], meeting: Meeting) -> tuple[str, ...]:
        """What starts the ranks of one of several hosts; they are numbered from the first host on. By default torchrun,
        which meets the others at one port of the first host: each host is told its number, so that nothing is elected.
        """
        return (
            sys.executable, "-m", "torch.distributed.run", "--nnodes", str(job.devices.hosts),
            "--node-rank", str(meeting.node), "--master-addr", meeting.address, "--master-port", str(meeting.port),
            "--local-addr", meeting.own_address, "--rdzv-conf", f"timeout={PATIENCE.seconds}",
            "--nproc-per-node", str(job.devices.ranks_of_host), "--max-restarts", "0", *program,
        )  # fmt: skip

    def __init__(self, job: TrainingJob, rank: int, world: int, device: str) -> None:
        """``device``: torch's name of the rank's device."""
        self.job, self.rank, self.world, self.device = job, rank, world, device

    @property
    def several(self) -> bool:
        """Whether gradients are exchanged (``devices.strategy: ddp``), be it among one."""
        return self.job.devices.strategy == "ddp"

    @property
    def statistics_timed(self) -> bool:
        """Whether the exchange of running statistics can be timed by its thread: not on a GPU, which does it later, nor
        within a compiled forward pass.
        """
        return self.job.devices.kind.kind == "cpu" and not self.job.train.compile

    @abstractmethod
    def begin(self) -> None:
        """Meet the other ranks. Nothing of the training is there yet."""

    @abstractmethod
    def end(self) -> None:
        """Part from them, in good order."""

    @abstractmethod
    def network(self, module: Any) -> Any:
        """A network whose gradients, after ``backward``, are the mean over all ranks; of jobs with several.

        The weights of ``module`` are the same in every rank, and stay those of the network.
        """

    def exchange(self, network: Any) -> Exchange | None:
        """Clocks of the exchange of gradients of such a network; None where it has none: the report says so."""
        return None

    def optimiser(self, optimiser: Any) -> Any:
        """torch's optimiser of the job as this engine uses it."""
        return optimiser

    def sampler(self, items: Any) -> Any:
        """Which samples the rank takes in an epoch, of jobs with several: each sample by one rank only, as many for
        each. By default torch's DistributedSampler.
        """
        from torch.utils.data import DistributedSampler

        loader, seed = self.job.loader, self.job.train.seed
        return DistributedSampler(items, self.world, self.rank, shuffle=loader.shuffle, seed=seed)

    def backward(self, loss: Any) -> None:
        """Gradients of the loss, exchanged once it returns or on the way."""
        loss.backward()

    @abstractmethod
    def barrier(self) -> None:
        """Wait for all ranks; of jobs with several, as the next two."""

    @abstractmethod
    def total(self, tensor: Any) -> Any:
        """The sum over all ranks of tensors of one shape, in each of them."""

    @abstractmethod
    def gather(self, tensor: Any) -> Sequence[Any]:
        """The tensors of all ranks, of one shape, in each of them: a sequence by rank."""


#: Jobs name their engine by ``train.trainer``.
TRAINERS: Registry[type[Trainer]] = Registry(
    "trainer",
    "inferbench.trainers",
    {"torchrun": "inferbench_tasks.training.trainers.torchrun:Torchrun"},
)


def trainer_of(job: TrainingJob) -> type[Trainer]:
    """The engine of a job; UnknownKindError where it is not installed (any more)."""
    return TRAINERS.load(job.train.trainer, "train.trainer")
