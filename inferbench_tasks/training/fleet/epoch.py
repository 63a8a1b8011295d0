"""The short epoch that tells devices apart: the same on each of a kind, and on groups of them for their links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Protocol

from inferbench_tasks.training.findings import MOST_RANKS

#: Of one host; of more of them each has a pair with its neighbour, in a ring.
ALL_PAIRS_OF = 6
#: Some 20 s of a core: what a device computes, with the data in memory so that no disk is judged with it.
EPOCH: dict[str, Any] = {
    "kind": "training",
    "data": {"kind": "digits", "where": "memory"},
    "train": {"batch_size": 32, "rounds": 5, "warmup_steps": 5},
}
#: The digits leave four ranks 25 measured steps, and eight none: figures need 30. From so many devices on each rank has
#: a batch on its device and as many steps as a single device of the digits: the link is judged, and no loading.
MANY = 4
_SAMPLES_EACH = 42 * 32


class RegisteredDevice(Protocol):
    """What is asked of a device (``cluster.device.Device``)."""

    @property
    def device_id(self) -> str: ...

    @property
    def device_type(self) -> str: ...

    @property
    def host(self) -> str: ...


def groups(devices: Iterable[RegisteredDevice], links: bool) -> list[tuple[RegisteredDevice, ...]]:
    """Each device by itself; with ``links`` also pairs of one kind and host, and all of these together.

    All pairs of up to 6 devices, neighbours of more: a slow link of one device shows in each of its pairs. More devices
    than a training may have are not tried together.
    """
    known = sorted(devices, key=lambda device: device.device_id)
    found: list[tuple[RegisteredDevice, ...]] = [(device,) for device in known]
    if not links:
        return found
    together: dict[tuple[str, str], list[RegisteredDevice]] = defaultdict(list)
    for device in known:
        together[device.host, device.device_type].append(device)
    for members in together.values():
        if len(members) <= ALL_PAIRS_OF:
            found += combinations(members, 2)
        else:
            found += zip(members, [*members[1:], members[0]], strict=True)
        if 2 < len(members) <= MOST_RANKS:
            found.append(tuple(members))
    return found


def submission(group: Sequence[RegisteredDevice]) -> dict[str, Any]:
    """The epoch for these devices, as the plain data of a submission: one rank on each of them.

    Of groups of one size and kind it is one job, whatever its devices are.
    """
    kind, count = group[0].device_type, len(group)
    devices: dict[str, Any] = {"count": count, "kind": "cpu" if kind == "cpu" else f"gpu:{kind}"}
    if count > 1:
        devices["strategy"] = "ddp"
    made = {"data": {"kind": "dummy", "samples": count * _SAMPLES_EACH, "where": "device"}}
    return {
        "name": "fleet" if count == 1 else f"fleet-of-{count}",
        **EPOCH,
        **(made if count >= MANY else {}),
        "devices": devices,
        "on_devices": [device.device_id for device in group],
    }
