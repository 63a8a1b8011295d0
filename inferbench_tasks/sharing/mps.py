"""``mps``: NVIDIA's Multi-Process Service, the paper's way to serve several models from one GPU.

One control daemon per run, in folders of its own, so that it touches no daemon that the machine has already. See
NVIDIA's "Multi-Process Service" guide: CUDA_MPS_PIPE_DIRECTORY leads a process to its daemon,
CUDA_MPS_ACTIVE_THREAD_PERCENTAGE bounds its share of the SMs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import ServerError
from inferbench_tasks.sharing.base import Sharing

CONTROL = "nvidia-cuda-mps-control"
_TIMEOUT_S = 20.0


class Mps(Sharing):
    """The daemon's pipes lie in ``folder/mps``, its logs beside them."""

    kind: ClassVar[str] = "mps"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pipes, self.logs = folder / "mps" / "pipe", folder / "mps" / "log"

    @classmethod
    def unavailable(cls, device: DeviceSpec) -> str | None:
        if device.kind != "gpu":
            return f"it shares NVIDIA GPUs, and serve.device is {device}; use method: colocate for CPUs"
        if not os.path.exists("/proc/driver/nvidia/version") and not os.path.exists("/dev/nvidiactl"):
            return "there is no NVIDIA driver on this machine (no /proc/driver/nvidia, no /dev/nvidiactl)"
        if shutil.which(CONTROL) is None:
            return f"{CONTROL} is not installed; it comes with the NVIDIA driver"
        return None

    def environment(self, percentage: int | None) -> dict[str, str]:
        variables = {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.logs)}
        if percentage is not None:
            variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(percentage)
        return variables

    def start(self) -> None:
        """Start the daemon; ServerError with its own words if it does not come up."""
        if self.running():
            return
        for folder in (self.pipes, self.logs):
            folder.mkdir(parents=True, exist_ok=True)
        process = self._run([CONTROL, "-d"])
        if process.returncode or not self.running():
            message = (process.stderr or process.stdout).strip() or f"exit code {process.returncode}"
            raise ServerError(f"share.method: NVIDIA's MPS did not start: {message}; its log: {self.logs}")

    def running(self) -> bool:
        """Whether the daemon answers."""
        if not (self.pipes / "control").exists():
            return False
        return self._run([CONTROL], "get_server_list\n").returncode == 0

    def stop(self) -> None:
        if shutil.which(CONTROL) and (self.pipes / "control").exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._run([CONTROL], "quit -t 5\n")
        shutil.rmtree(self.pipes, ignore_errors=True)

    def _run(self, command: list[str], order: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            input=order,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, **self.environment(None)},
        )
