"""What every monitor has in common, and the registry of them.

A monitor reads one source. It lives in the sampler, a process of its own, so that measuring costs
neither the client nor the server anything but a share of a core that is itself measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from inferbench_tasks.registry import Registry

#: After so many samples of a monitor its interval doubles, so that a load of any length stays bounded on disk and in
#: memory: a sample of waits has twelve figures, of which 25 a second would be 26 million in a day.
ROUNDS_PER_RATE = 36_000


@dataclass(frozen=True)
class Target:
    """What is watched: the server's leading process (Unix creation time in ns), its device and addresses.

    ``device`` is the submission's ("cpu", "gpu", "gpu:t4"); ``metrics_url`` the server's own Prometheus
    metrics; ``exporters`` are addresses of node exporter, cAdvisor or DCGM exporter, by source name. ``beside``: the
    leading processes of the servers that share the device. ``replicas``: those of further servers that are watched
    with the first as one, ``balancer``: that of what stands before them; 0: nothing does. ``side``: which of both is on
    this machine, where the load comes from another host; ``pid`` is 0 where there is no server.
    """

    pid: int
    started_ns: int
    device: str = "cpu"
    container_id: str | None = None
    metrics_url: str | None = None
    exporters: tuple[tuple[str, str], ...] = ()
    beside: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    balancer: int = 0
    side: Literal["both", "server", "client"] = "both"

    @property
    def servers(self) -> tuple[int, ...]:
        """The leading processes of all that answer together; none where there is no server."""
        return (self.pid, *self.replicas) if self.pid else ()

    @property
    def tested(self) -> tuple[int, ...]:
        """Of all that is under test: the servers, and what stands before them."""
        return (*self.servers, *((self.balancer,) if self.balancer else ()))


class Monitor(ABC):
    """One source of figures. ``metrics``: name -> what it is, unit included.

    ``interval_s``: no faster than its source really changes. A name that ends in ``_total`` counts up
    from the start of the monitor: differences between any two of its samples are exact.
    """

    source: ClassVar[str]
    interval_s: ClassVar[float] = 0.1
    #: Sampled at ``interval_s`` even where the session asks for less.
    fine: ClassVar[bool] = False
    metrics: ClassVar[dict[str, str]]

    def __init__(self, target: Target) -> None:
        self.target = target

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """Why it can't run here for that target; None if it can."""
        return None

    @abstractmethod
    def sample(self) -> dict[str, float]:
        """The figures now; those that can't be read are left out."""

    def close(self) -> None:
        """Close the files and connections that the monitor holds."""
        return


MONITORS: Registry[type[Monitor]] = Registry(
    "monitor",
    "inferbench.monitors",
    {
        "server": "inferbench_tasks.monitors.server:ServerMonitor",
        "balancer": "inferbench_tasks.monitors.server:BalancerMonitor",
        "client": "inferbench_tasks.monitors.server:ClientMonitor",
        "host": "inferbench_tasks.monitors.host:HostMonitor",
        "wait": "inferbench_tasks.monitors.waiting:WaitMonitor",
        "gpu": "inferbench_tasks.monitors.gpu:GpuMonitor",
        "rapl": "inferbench_tasks.monitors.rapl:RaplMonitor",
        "server_metrics": "inferbench_tasks.monitors.prometheus:ServerMetricsMonitor",
        "exporters": "inferbench_tasks.monitors.prometheus:ExportersMonitor",
    },
)
