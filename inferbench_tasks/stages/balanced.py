"""nginx before a job's replicas, whether they stand on one host or each on its own: cores, start, what it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.backends import nginx_balancer
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.launchers.base import Launcher
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.balancer import BalancerSpec


def balanced(
    run_id: str,
    spec: BalancerSpec | None,
    folder: Path,
    replicas: Sequence[Replica],
    *,
    shared: Sequence[int],
    spare: Sequence[int],
    launcher: Launcher,
    servers_dir: Path,
    ctx: Context,
) -> tuple[Endpoint, Balancer]:
    """Start it; where it is asked, and what it is. ServerError where no answer comes through it.

    ``spare``: cores of this host that are no replica's, of which it has those that this process may use; where there is
    none it takes from the replicas, whose cores here are ``shared``.
    """
    own = usable([core for core in spare if core not in shared])
    cores = own or tuple(sorted({*shared}))
    balancing, workers = spec or BalancerSpec(), min(len(cores), len(replicas))
    server, endpoint, version = nginx_balancer.start(
        run_id,
        balancing,
        folder,
        [replica.endpoint for replica in replicas],
        workers=workers,
        cores=cores,
        launcher=launcher,
        servers_dir=servers_dir,
        cancelled=ctx.cancelled,
    )
    return endpoint, Balancer(
        kind=balancing.kind,
        policy=balancing.policy,
        version=version,
        workers=workers,
        cores=cores,
        apart=bool(own),
        server=server,
    )


def usable(cores: Sequence[int]) -> tuple[int, ...]:
    """Those that the kernel lets this process use: a container may not have all of its host's."""
    able: list[tuple[int, ...]] = []

    def look() -> None:  # in a thread, which ends: this process keeps its own cores
        try:
            os.sched_setaffinity(0, cores)
            able.append(tuple(sorted(os.sched_getaffinity(0))))
        except OSError:
            able.append(())

    if not cores:
        return ()
    thread = threading.Thread(target=look, name="cores")
    thread.start()
    thread.join()
    return able[0]
