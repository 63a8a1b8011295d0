"""Which host times are of: that which draws the report, or those whose shards they were measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class MeasuredOn:
    """``cores``: the host's, as far as it grants them; None of several hosts that have not the same."""

    environment: dict[str, Any]
    cores: float | None


def measured_on(shards: Sequence[Mapping[str, Any]], here: str) -> MeasuredOn:
    """Of what these shards measured; ``here``: the home of this host (``settings.home_id``).

    Of several hosts the environment is a list, ``hosts``. Without a shard (all times were stored before), and of shards
    of versions that told no host, it is this one.
    """
    from inferbench_tasks.monitors import environment

    homes: dict[str, Mapping[str, Any]] = {}
    for out in shards:
        homes.setdefault(out.get("home") or here, out.get("environment") or {})
    told: list[MeasuredOn] = []
    for home in sorted(homes) or [here]:
        if home == here:
            hardware = environment.hardware()
            told.append(
                MeasuredOn(
                    {"hardware": hardware, "system": environment.system()},
                    environment.granted_cores(hardware),
                )
            )
        else:
            of: dict[str, Any] = dict(homes[home])
            # A device's worker may be pinned to its device's cores; these are the host's.
            cores = environment.granted_cores({**(of.get("hardware") or {}), "cores_allowed": None})
            told.append(MeasuredOn(of, cores))
    if len(told) == 1:
        return told[0]
    cores_each = {one.cores for one in told}
    return MeasuredOn(
        {"hosts": [one.environment for one in told]}, cores_each.pop() if len(cores_each) == 1 else None
    )
