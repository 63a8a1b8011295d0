"""What a run ran on and with: hardware, kernel, clocks, versions; enough to tell why figures differ."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from inferbench_tasks import sandbox
from inferbench_tasks.cores import cpu_limit_cores, listed, usable_cores
from inferbench_tasks.monitors.gpu import device_of

#: Packages whose version can change a figure.
PACKAGES = (
    "inferbench", "apache-airflow", "numpy", "onnx", "onnxruntime", "torch", "tensorflow", "openvino", "ai-edge-litert",
    "skl2onnx", "scikit-learn", "nvidia-pytriton", "grpcio", "uvloop", "httptools", "fastapi", "uvicorn", "pymongo",
    "pyarrow",
)  # fmt: skip
_CPUS = Path("/sys/devices/system/cpu")


def hardware() -> dict[str, Any]:
    """The machine: processor, cores, memory, clocks; None where it does not tell."""
    fields = _cpuinfo()
    return {
        "cpu": _processor(fields),
        "architecture": platform.machine(),
        "cores_logical": psutil.cpu_count(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_usable": usable_cores(),
        "cores_allowed": sorted(os.sched_getaffinity(0)),
        "cpu_limit_cores": cpu_limit_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "cpu_flags": sorted(
            set(fields.get("flags", fields.get("Features", "")).split())
            & {
                "avx",
                "avx2",
                "avx512f",
                "avx512_vnni",
                "avx_vnni",
                "amx_tile",
                "amx_bf16",
                "fma",
                "asimd",
                "sve",
            }
        ),
        "microcode": fields.get("microcode"),
        "governor": _text(_CPUS / "cpu0/cpufreq/scaling_governor"),
        "turbo_disabled": _text(_CPUS / "intel_pstate/no_turbo"),
        "siblings": siblings(),
        "smt": _text(_CPUS / "smt/control"),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "hypervisor": "hypervisor" in fields.get("flags", "").split() or None,
        "gpus": gpus(),
    }


def processor() -> str:
    """The processor's name alone, as ``hardware`` tells it."""
    return _processor(_cpuinfo())


def _processor(fields: dict[str, str]) -> str:
    return fields.get("model name") or platform.processor() or platform.machine()


def siblings(cpus: Path = _CPUS) -> list[list[int]]:
    """The logical cores that share each physical one, as the kernel tells it; [] where it does not."""
    groups = {_text(path) for path in cpus.glob("cpu[0-9]*/topology/thread_siblings_list")}
    return sorted(sorted(listed(group)) for group in groups if group)


def system() -> dict[str, Any]:
    """The software below ours: kernel, distribution, libc, clock source, container."""
    release: dict[str, str] = {}
    with contextlib.suppress(OSError):  # not every image has the file; the field is None then
        release = platform.freedesktop_os_release()
    return {
        "kernel": platform.release(),
        "kernel_version": platform.version(),
        "distribution": release.get("PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()) or None,
        "clocksource": _text(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        "transparent_hugepage": _text(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
        "glibc_tunables": os.environ.get("GLIBC_TUNABLES"),  # which servers and ranks get
        "container": container(),
        "cpu_limit_cores": cpu_limit_cores(),
        "host": platform.node(),
        "python": platform.python_version(),
        "sandbox": sandbox.state(),
    }


def gpus() -> list[dict[str, Any]]:
    """The NVIDIA devices with driver and memory; [] without a driver or its library."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        rows = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            rows.append(
                {
                    "name": pynvml.nvmlDeviceGetName(device),
                    "driver": driver,
                    "memory_bytes": pynvml.nvmlDeviceGetMemoryInfo(device).total,
                }
            )
        return rows
    finally:
        pynvml.nvmlShutdown()


def gpu_used(pid: int, *, by_bus: bool = False) -> dict[str, Any] | None:
    """Name and UUID of the GPU that a process uses, see ``monitors.gpu.device_of``; None where that is not known."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        device = device_of(pynvml, pid, by_bus=by_bus)
        identity = {"name": pynvml.nvmlDeviceGetName(device), "uuid": pynvml.nvmlDeviceGetUUID(device)}
    except (pynvml.NVMLError, ValueError):
        return None
    finally:
        pynvml.nvmlShutdown()
    return {key: text.decode() if isinstance(text, bytes) else text for key, text in identity.items()}


def device_name(kind: str, hardware: dict[str, Any]) -> str | None:
    """The product that a job ran on: of ``hardware``'s answer, with ``gpu`` as ``gpu_used`` told it for its server.

    None where it is not known which of several GPUs it was.
    """
    if kind == "cpu":
        return hardware.get("cpu")
    gpu, all_gpus = hardware.get("gpu"), hardware.get("gpus") or []
    if gpu is None and len(all_gpus) == 1:
        gpu = all_gpus[0]
    return gpu["name"] if gpu else None


def versions() -> dict[str, str | None]:
    """Package -> version, None where it is not installed."""
    return {name: _version(name) for name in PACKAGES}


def git_state() -> tuple[str | None, bool | None]:
    """The commit of InferBench's own checkout and whether files differ from it; None outside of one."""
    folder = Path(__file__).resolve().parents[2]
    if not (folder / ".git").exists():
        return None, None
    try:
        sha = _git(folder, "rev-parse", "HEAD")
        return sha, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.SubprocessError):
        return None, None  # no git here, or no permission to read the checkout


def container() -> str | None:
    """The container runtime that this process runs in, None on a plain host."""
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    match = re.search(r"docker|containerd|kubepods|lxc", _text(Path("/proc/1/cgroup")) or "")
    return match.group() if match else None


def granted_cores(hardware: dict[str, Any]) -> float | None:
    """The cores that a job had, of ``hardware``'s answer: those it was pinned to, at most its cgroup's quota."""
    cores = len(hardware.get("cores_allowed") or ()) or hardware.get("cores_logical")
    known = [float(value) for value in (cores, hardware.get("cpu_limit_cores")) if value]
    return min(known, default=None)


def _cpuinfo() -> dict[str, str]:
    """The fields of the first processor in ``/proc/cpuinfo``."""
    text = _text(Path("/proc/cpuinfo")) or ""
    pairs = (line.partition(":") for line in text.split("\n\n")[0].split("\n"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _git(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return process.stdout.strip()


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
