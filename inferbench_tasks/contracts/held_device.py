"""A device as a job's stages are told of it."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import Handle


class HeldDevice(Handle):
    """One of the devices that a job holds. ``cores``: those of its host that are its own; empty if it states none."""

    device_id: str
    device_type: str
    host: str
    cores: tuple[int, ...] = ()
    gpu_index: int | None = None
    cluster: str = ""
