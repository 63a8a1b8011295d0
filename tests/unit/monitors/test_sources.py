"""What each source tells: exporters' text, the host's cores, a GPU by NVML."""

from __future__ import annotations

import http.server
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.environment import device_name, gpu_used
from inferbench_tasks.monitors.gpu import GpuMonitor
from inferbench_tasks.monitors.gpu_processes import GpuProcesses
from inferbench_tasks.monitors.host import HostMonitor
from inferbench_tasks.monitors.prometheus import EXPORTED, ExportersMonitor
from inferbench_tasks.monitors.prometheus_text import TextReader
from inferbench_tasks.monitors.records import read_recording
from inferbench_tasks.monitors.session import MonitorSession

CADVISOR = """
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{cpu="total",id="/"} 100
container_cpu_usage_seconds_total{cpu="total",id="/docker"} 60
container_cpu_usage_seconds_total{cpu="total",id="/docker/abc",name="server"} 40
container_cpu_usage_seconds_total{cpu="total",id="/system.slice/docker-def.scope"} 20
"""
DCGM = """
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 35
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2"} 5
DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 0.25
"""


def target(**fields: Any) -> Target:
    return Target(**{"pid": os.getpid(), "started_ns": 0, **fields})


def test_a_container_is_counted_once() -> None:
    """A control group contains its children: only the server's own counts, or the root without one."""
    name = "container_cpu_usage_seconds_total"
    assert TextReader(EXPORTED).read(CADVISOR)[name] == 100
    assert TextReader(EXPORTED, "abc").read(CADVISOR)[name] == 40
    assert TextReader(EXPORTED, "def").read(CADVISOR)[name] == 20
    assert TextReader(EXPORTED, "nobody").read(CADVISOR) == {}


def test_every_gpu_of_dcgm_is_told_apart() -> None:
    """Its series keep the GPU's number."""
    found = TextReader(EXPORTED).read(DCGM)
    assert found == {
        "DCGM_FI_DEV_GPU_UTIL[gpu=0]": 35, "DCGM_FI_DEV_GPU_UTIL[gpu=1]": 5, "DCGM_FI_PROF_SM_ACTIVE[gpu=0]": 0.25
    }  # fmt: skip


def test_what_is_wanted_is_found_behind_many_other_series() -> None:
    """An exporter with a thousand series does not hide the one that is asked for."""
    text = "".join(f"go_noise_{n} 1\n" for n in range(1000)) + "node_memory_MemAvailable_bytes 5\n"
    assert TextReader(EXPORTED).read(text) == {"node_memory_MemAvailable_bytes": 5}


def test_exporters_are_scraped_and_a_silent_one_hides_none() -> None:
    """Two answer over HTTP, one does not: the two are there, by name."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"/cadvisor": CADVISOR, "/dcgm": DCGM}[self.path].encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        base = f"http://127.0.0.1:{server.server_port}"
        exporters = (
            ("cadvisor", f"{base}/cadvisor"),
            ("gone", "http://127.0.0.1:9/"),
            ("dcgm", f"{base}/dcgm"),
        )
        found = ExportersMonitor(target(exporters=exporters, container_id="abc")).sample()
        server.shutdown()
        thread.join(5)
    assert found["cadvisor.container_cpu_usage_seconds_total"] == 40
    assert found["dcgm.DCGM_FI_PROF_SM_ACTIVE[gpu=0]"] == 0.25
    assert not any(name.startswith("gone.") for name in found)


@pytest.mark.skipif(
    not shutil.which("prometheus-node-exporter"), reason="prometheus-node-exporter: not installed"
)
def test_a_real_node_exporter_agrees_with_our_own_host_monitor(tmp_path: Path) -> None:
    """The real exporter, scraped while a core is busy: its CPU seconds and ours are of the same machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    exporter = subprocess.Popen(
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL
    )
    me = ServerHandle(launcher="process", pid=os.getpid(), started_ns=0, log_path="", config_path="")
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        path = tmp_path / "m.parquet"
        address = {"node": f"http://127.0.0.1:{port}/metrics"}
        with MonitorSession(me, path, kinds=["host", "exporters"], exporters=address):
            subprocess.run(
                [sys.executable, "-c", "import time\nwhile time.process_time() < 1.5: pass"], check=True
            )
            time.sleep(1.5)
    finally:
        exporter.terminate()
        exporter.wait()
    seen = read_recording(path)
    theirs = {m: s for (source, m), s in seen.series.items() if source == "exporters"}
    user = theirs["node.node_cpu_seconds_total[mode=user]"]
    assert len(user.t_ns) >= 2 and user.values[-1] > user.values[0]
    ours = seen.get("host", "cpu_busy_s_total")
    assert ours is not None
    start, end = int(user.t_ns[0]), int(user.t_ns[-1])
    modes = ("user", "nice", "system", "irq", "softirq")
    busy = sum(
        theirs[f"node.node_cpu_seconds_total[mode={mode}]"].increase(start, end) or 0 for mode in modes
    )
    mine = ours.increase(start, end)
    assert mine is not None and busy == pytest.approx(mine, rel=0.25, abs=0.3)
    assert theirs["node.node_memory_MemAvailable_bytes"].values[-1] > 0


def test_every_core_is_told_apart() -> None:
    """Busy and steal per core, whose sum is the machine's; clocks where the kernel tells them."""
    monitor = HostMonitor(target())
    found = monitor.sample()
    monitor.close()
    cores = os.cpu_count() or 1
    busy = [found[f"core{n}_busy_s_total"] for n in range(cores)]
    steal = [found[f"core{n}_steal_s_total"] for n in range(cores)]
    assert sum(busy) == pytest.approx(found["cpu_busy_s_total"], rel=0.01, abs=1)
    assert sum(steal) == pytest.approx(found["cpu_steal_s_total"], rel=0.01, abs=1)
    if "cpu MHz" in Path("/proc/cpuinfo").read_text():
        assert found["core0_frequency_mhz"] > 100 and found["frequency_mhz"] > 100


def test_without_a_driver_the_gpu_is_unavailable_with_a_reason() -> None:
    """NVML absent: the monitor says why, and nothing is made up."""
    if os.path.exists("/dev/nvidiactl"):
        pytest.skip("this machine has an NVIDIA driver")
    reason = GpuMonitor.unavailable(target(device="gpu")) or ""
    assert "NVML" in reason or "nvidia-ml-py is not installed" in reason


class FakeNvml(types.ModuleType):
    """FAKE: stands for pynvml where there is no GPU; a board that has no energy counter and no ECC."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 0, 1, 0

    BOARDS: ClassVar[dict[str, str]] = {"GPU-aaa": "Tesla T4"}

    class NVMLError(Exception):
        """As pynvml's."""

    class NVMLError_NotSupported(NVMLError):
        """As pynvml's."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.asked: list[str] = []
        self.users: list[int] = []

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        """By PCI bus."""
        return list(self.BOARDS)[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        """The handle is the UUID."""
        if uuid not in self.BOARDS:
            raise self.NVMLError(uuid)
        return uuid

    def nvmlDeviceGetName(self, handle: str) -> str:
        """The product."""
        return self.BOARDS[handle]

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        """The handle."""
        return handle

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlShutdown": None,
            "nvmlDeviceGetUtilizationRates": types.SimpleNamespace(gpu=50, memory=25),
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(used=1 << 30),
            "nvmlDeviceGetPowerUsage": 250_000,
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetTemperature": 61,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x8,
            "nvmlDeviceGetComputeRunningProcesses": [types.SimpleNamespace(pid=pid) for pid in self.users],
            "nvmlDeviceGetCount": len(self.BOARDS),
        }
        missing = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetTotalEccErrors")

        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            if name in missing:
                raise self.NVMLError_NotSupported(name)
            return values[name]

        if name in values or name in missing:
            return call
        raise AttributeError(name)


def test_a_fake_gpu_tells_all_fields_with_their_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a FAKE driver: W from mW, ratios from percent; what the product lacks is left out and asked for once."""
    fake = FakeNvml()
    fake.users = [1, os.getppid()]
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monitor = GpuMonitor(target(device="gpu"))
    found = monitor.sample()
    assert monitor.sample() == found
    monitor.close()
    assert found == {
        "utilisation_ratio": 0.5, "memory_utilisation_ratio": 0.25, "memory_used_bytes": float(1 << 30),
        "power_w": 250.0, "power_limit_w": 700.0, "sm_clock_mhz": 1980.0, "memory_clock_mhz": 1980.0,
        "temperature_c": 61.0, "held_back": 8.0, "processes": 2.0, "foreign_processes": 2.0,
    }  # fmt: skip
    assert fake.asked.count("nvmlDeviceGetTotalEnergyConsumption") == 1
    assert set(found) < set(GpuMonitor.metrics)


class TwoBoards(FakeNvml):
    """FAKE: by PCI bus the slower board comes first."""

    BOARDS: ClassVar[dict[str, str]] = {"GPU-aaa": "Tesla T4", "GPU-bbb": "NVIDIA A100-SXM4-80GB"}


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"CUDA_VISIBLE_DEVICES": "GPU-bbb"}, "NVIDIA A100-SXM4-80GB"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aaa,GPU-bbb"}, "Tesla T4"),
        ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "NVIDIA A100-SXM4-80GB"),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, "Tesla T4"),
        ({"CUDA_VISIBLE_DEVICES": "1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-gone"}, None),
    ],
)
def test_the_gpus_name_is_of_the_one_that_the_server_sees(
    environment: dict[str, str], name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server's own environment, on a FAKE driver with two boards; an index in CUDA's own order names none."""
    monkeypatch.setitem(sys.modules, "pynvml", TwoBoards())
    server = subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"], **environment})
    try:
        wait_for(Path(f"/proc/{server.pid}/environ").read_bytes)
        used = gpu_used(server.pid)
        assert (used and used["name"]) == name
        two = [{"name": board} for board in TwoBoards.BOARDS.values()]
        assert device_name("gpu", {"cpu": "x", "gpu": used, "gpus": two}) == name
        unavailable = GpuMonitor.unavailable(target(device="gpu", pid=server.pid))
        assert (unavailable is None) == (name is not None)
    finally:
        server.kill()
        server.wait()


def test_without_a_known_gpu_an_only_one_is_it() -> None:
    """As in results of before; of several none is guessed."""
    assert device_name("gpu", {"gpus": [{"name": "Tesla T4"}]}) == "Tesla T4"
    assert device_name("gpu", {"gpus": [{"name": "Tesla T4"}, {"name": "Tesla T4"}]}) is None
    assert device_name("cpu", {"cpu": "x", "gpus": [{"name": "Tesla T4"}]}) == "x"


def test_processes_on_a_gpu_are_told_apart_by_their_groups() -> None:
    """The server's, a neighbour's and their children are ours; another process is foreign while it is there."""
    server, neighbour = (
        subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) for _ in range(2)
    )
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        child = wait_for(lambda: psutil.Process(neighbour.pid).children())[0].pid
        ours = {server.pid, neighbour.pid, child}
        watched = GpuProcesses(server.pid, [neighbour.pid])
        assert watched.sample(ours) == {"processes": 3, "foreign_processes": 0}
        assert watched.sample(ours | {stranger.pid}) == {"processes": 4, "foreign_processes": 1}
        assert watched.sample(ours) == {"processes": 3, "foreign_processes": 0}
        assert GpuProcesses(server.pid, []).sample(ours)["foreign_processes"] == 2
        hidden = watched.sample({server.pid, 1 << 22})  # more than the kernel's largest
        assert hidden == {"processes": 2, "beside_processes": 2}
    finally:
        for process in (server, neighbour, stranger):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(look: Callable[[], Any]) -> Any:
    """What it sees once it sees something."""
    for _ in range(500):
        if found := look():
            return found
        time.sleep(0.01)
    raise AssertionError("nothing came")
