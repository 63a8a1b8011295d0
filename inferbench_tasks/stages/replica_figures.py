"""Part of ``collect``: what a result says of several servers that answered together, of each and of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.contracts.replicas import Balancer, Replica
from inferbench_tasks.dotted import value_at

#: Figures of all devices that are given for one as well: they add up.
_SHARED = ("throughput_rps", "throughput_samples_per_s", "goodput_rps")


def per_device(
    summary: Mapping[str, Any], replicas: Sequence[Replica], counted: Sequence[int], seconds: float
) -> dict[str, Any]:
    """``throughput_…``: what all answered, by the number of devices; ``replicas``: of each its share of the samples of
    the whole load (``counted``), and its CPU (cores) and the most memory (bytes) in the window of ``seconds``.
    ``share_ratio``: the least share over the largest, 1 where all answered alike; None where nothing was counted.
    """
    count = len(replicas)
    values = {name: value_at(summary, name) for name in _SHARED}
    total, most = sum(counted), max(counted, default=0)
    rows = []
    for replica in replicas:
        own = f"resources.server.replica{replica.number}"
        cpu_s = value_at(summary, f"{own}_cpu_s_total")
        samples = counted[replica.number - 1] if counted else None
        rows.append(
            {
                "number": replica.number,
                "device_id": replica.device_id,
                "samples": samples,
                "samples_ratio": samples / total if samples is not None and total else None,
                "cpu_cores": None if cpu_s is None else cpu_s / seconds,
                "rss_bytes": value_at(summary, f"{own}_rss_bytes.max"),
            }
        )
    return {
        "devices": count,
        **{name: None if value is None else value / count for name, value in values.items()},
        "share_ratio": min(counted) / most if most else None,
        "replicas": rows,
    }


def of_replicas(
    replicas: Sequence[Replica], balancer: Balancer | None, counted: Sequence[int]
) -> dict[str, Any]:
    """Which server stood on which device, and on whose cores what stood before them ran; nothing of one server."""
    if not replicas:
        return {}
    return {
        "replicas": {
            "servers": [
                {
                    "number": replica.number,
                    "device_id": replica.device_id,
                    "cores": list(replica.cores),
                    **({"host": replica.host} if replica.host else {}),
                    "samples": counted[replica.number - 1] if counted else None,
                }
                for replica in replicas
            ],
            "balancer": balancer
            and {**balancer.settings, "core_numbers": list(balancer.cores), "apart": balancer.apart},
        }
    }
