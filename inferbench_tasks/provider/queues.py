"""The queues' names, and how a task tells our executor what it needs."""

from __future__ import annotations

#: Tasks without a device.
HOST = "host"
#: A task that waits for a device: no worker serves this queue. A device's own queue has the device's id as its name.
HOLD = "waiting-for-a-device"
#: The key in a task's executor_config.
CONFIG = "inferbench"
