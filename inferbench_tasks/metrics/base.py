"""What is made from one run's measurements: a metric makes one figure, a block a part of the summary with several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

from inferbench_tasks import figures
from inferbench_tasks.contracts.device import CPU, DeviceSpec
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.figure import Figure
from inferbench_tasks.registry import Registry

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.window import Window
    from inferbench_tasks.monitors.records import Recording


@dataclass(frozen=True)
class ClientHost:
    """The host that a load came from, where it was another than the server's. ``unwatched``: why the server's host was
    not watched over the whole of the load; "" where it was. Where several hosts shared the load, ``shards`` are the
    senders of this one, and ``further`` are the other ones; their ``recording``s are on the first one's clock.
    """

    recording: Recording
    hardware: dict[str, Any]
    unwatched: str = ""
    shards: tuple[int, ...] = ()
    further: tuple[ClientHost, ...] = ()

    @property
    def by_role(self) -> dict[str, ClientHost]:
        """Those that sent, as results call them."""
        others = zip(ORDINALS, self.further, strict=False)
        return {"client": self, **{f"{ordinal} client": host for ordinal, host in others}}


@dataclass(frozen=True)
class ServerHost:
    """One host of several with a replica each: its number and name, what was recorded there, on the load's clock.
    ``unwatched``: why nothing was; "" where it was.
    """

    number: int
    name: str
    recording: Recording
    hardware: dict[str, Any]
    unwatched: str = ""


@dataclass(frozen=True)
class Measured:
    """What a run measured, for metrics: the records of the window, the monitors, the machine.

    ``summary``: ``loadgen.summary.summarise``'s figures with ``resources``, and what metrics before this one made;
    ``hardware``: ``environment.hardware``.
    """

    window: Window
    recording: Recording
    summary: dict[str, Any]
    hardware: dict[str, Any]
    device: DeviceSpec = CPU
    #: Where the server wrote down the moments of some requests (``metrics.triton_trace``), if it did.
    trace_path: str | None = None
    #: So many other models were served and loaded on the device meanwhile.
    neighbours: int = 0
    #: Of a load from another host: that host. ``recording`` and ``hardware`` are then the server's.
    client: ClientHost | None = None
    #: Of replicas behind a balancer: the cores that it could run on, and those of their devices.
    balancer_cores: tuple[int, ...] = ()
    device_cores: tuple[int, ...] = ()
    #: How many that are none of the devices' a balancer can use.
    balancer_own_cores: int = 0
    #: Of replicas on hosts of their own: all of these, the first with the balancer and the load. ``recording`` has sums
    #: over all servers then, and nothing that is a host's; ``hardware`` and cores are the first one's.
    hosts: tuple[ServerHost, ...] = ()

    @property
    def requests(self) -> int:
        """Good answers that arrived within the window: what its energy and money were spent on."""
        return int(self.window.completed.sum())

    @property
    def granted_cores(self) -> float | None:
        """The cores that the job had, on all hosts. Of replicas those of their devices, in place of those that the job
        might use: without a lease these are all of the machine, and what is left over is the balancer's.
        """
        from inferbench_tasks.monitors.environment import granted_cores

        if self.hosts:
            each = [granted_cores(host.hardware) for host in self.hosts]
            return None if None in each else sum(cores for cores in each if cores is not None)
        own = {"cores_allowed": list(self.device_cores)} if self.device_cores else {}
        return granted_cores(self.hardware | own)


def shared(neighbours: int, whole: str) -> str:
    """Why a figure of a whole device is no figure of one of the models on it."""
    return (
        f"{neighbours} other model(s) used the device, and {whole}: what of it is this model's is not known"
    )


class Metric(ABC):
    """Makes one figure. ``figure`` says all that there is to know of it, and is what puts it into the table: with it
    the value can be ranked and bounded by, recommended, charted and exported.

    Found as a file of ``metrics/single`` (``tail_ratio.py`` with the class ``TailRatio``) or by the entry point
    ``inferbench.metrics`` of another package.
    """

    figure: ClassVar[Figure]

    @abstractmethod
    def compute(self, measured: Measured) -> float | None:
        """The value in the figure's unit; None where it was not measured. It is stored at the figure's path."""


class Block(ABC):
    """Makes a part of the summary that is more than a number: figures with their method, uncertainty and reasons.

    ``path``: where it stands in the summary.
    """

    path: ClassVar[str]
    unit: ClassVar[str]
    formula: ClassVar[str]

    @abstractmethod
    def compute(self, measured: Measured) -> dict[str, Any]:
        """The part, as plain JSON values; with a ``reason`` where its figures are None."""


METRICS = cast("Registry[type[Metric]]", figures.METRICS)
