"""``colocate``: the servers run side by side; ``cores`` gives each its own part of the processor, or a common one."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.sharing.base import Sharing


class Colocate(Sharing):
    """Nothing is started; the kernel (or the GPU's time slicing) shares what the servers have in common."""

    kind: ClassVar[str] = "colocate"

    @classmethod
    def unavailable(cls, device: DeviceSpec) -> str | None:
        return None
