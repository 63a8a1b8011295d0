"""A monitored process group: what is seen is what it used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.errors import StorageError
from inferbench_tasks.monitors.records import convert_spool, read_recording
from inferbench_tasks.monitors.session import MonitorSession

#: A leader that only waits, and its child, which spins until it has used 0.4 s of CPU.
GROUP = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.6: pass\\ntime.sleep(60)"])
print("started", flush=True)
child.wait()
"""


@pytest.fixture
def server() -> Iterator[ServerHandle]:
    """A process group of two."""
    process = subprocess.Popen([sys.executable, "-c", GROUP], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    yield ServerHandle(
        launcher="process",
        pid=process.pid,
        started_ns=int(psutil.Process(process.pid).create_time() * 1e9),
        log_path="log",
        config_path="config",
    )
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_the_group_with_its_children_is_seen(server: ServerHandle, tmp_path: Path) -> None:
    """CPU, memory, threads and processes are those of the leader and its children, on the monotonic clock."""
    path = tmp_path / "monitors.parquet"
    before_ns = time.monotonic_ns()
    with MonitorSession(server, path, interval_s=0.05):
        time.sleep(1.5)
    after_ns = time.monotonic_ns()
    seen = read_recording(path)
    used = seen.series["server", "cpu_s_total"]
    group = [psutil.Process(server.pid), *psutil.Process(server.pid).children()]
    truth = sum(p.cpu_times().user + p.cpu_times().system for p in group)
    assert len(group) == 2
    assert 0 < used.values[-1] <= truth + 0.02
    assert all(used.values[1:] >= used.values[:-1])
    assert seen.series["server", "processes"].values[-1] == 2
    assert seen.series["server", "threads"].values[-1] == sum(p.num_threads() for p in group)
    assert seen.series["server", "rss_bytes"].values[-1] == pytest.approx(
        sum(p.memory_info().rss for p in group), rel=0.05
    )
    assert before_ns < used.t_ns[0] < used.t_ns[-1] < after_ns
    assert set(seen.sources()) >= {"server", "client", "host"}
    assert seen.about["problem"] is None
    assert list(tmp_path.iterdir()) == [path]


def test_what_begins_inside_is_seen_from_its_beginning(server: ServerHandle, tmp_path: Path) -> None:
    """However long the sampler takes to start, all monitors have been read once when the session is entered."""
    path = tmp_path / "monitors.parquet"
    with MonitorSession(server, path):
        entered_ns = time.monotonic_ns()
    recording = read_recording(path)
    for source, metric in (
        ("host", "cpu_busy_s_total"),
        ("server", "cpu_s_total"),
        ("client", "cpu_s_total"),
    ):
        assert recording.series[source, metric].t_ns[0] <= entered_ns


def test_a_sampler_that_dies_at_once_keeps_no_load_waiting(server: ServerHandle, tmp_path: Path) -> None:
    """Its end is the end of the wait, and the recording says the problem."""
    path = tmp_path / "monitors.parquet"
    with MonitorSession(server, path, kinds=["no-such-monitor"]):
        pass
    assert "exit code" in read_recording(path).about["problem"]


def test_a_server_that_is_gone_is_said_and_harms_nothing(tmp_path: Path) -> None:
    """Without the server the host is watched all the same, and the recording says what is missing."""
    gone = ServerHandle(launcher="process", pid=2**22 - 1, started_ns=0, log_path="", config_path="")
    with MonitorSession(gone, tmp_path / "m.parquet", interval_s=0.05):
        time.sleep(3)  # a busy machine takes a second to start the sampler
    seen = read_recording(tmp_path / "m.parquet")
    assert "not running" in seen.about["unavailable"]["server"]
    assert "host" in seen.sources() and "server" not in seen.sources()


def test_the_sampler_ends_with_the_process_that_started_it(server: ServerHandle, tmp_path: Path) -> None:
    """When a load is killed outright its sampler ends by itself."""
    program = (
        "import sys, time, json\n"
        "from pathlib import Path\n"
        "from inferbench_tasks.monitors.session import MonitorSession\n"
        "from inferbench_tasks.contracts.handles import ServerHandle\n"
        "m = MonitorSession(ServerHandle(**json.loads(sys.argv[1])), Path(sys.argv[2]))\n"
        "m.__enter__()\n"
        "print(m._child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, server.model_dump_json(), str(tmp_path / "m.parquet")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    sampler = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    psutil.wait_procs([sampler], timeout=30)
    assert not sampler.is_running() or sampler.status() == psutil.STATUS_ZOMBIE


def test_a_failing_sampler_is_told_in_the_recording(server: ServerHandle, tmp_path: Path) -> None:
    """A monitor that does not exist ends the sampler, not the load; the recording says so."""
    with MonitorSession(server, tmp_path / "m.parquet", kinds=["crystal_ball"]):
        time.sleep(0.1)
    problem = read_recording(tmp_path / "m.parquet").about["problem"]
    assert "crystal_ball" in problem


def test_a_cut_line_is_dropped(tmp_path: Path) -> None:
    """A spool whose last line was cut off (the sampler was killed) still gives all whole lines."""
    spool = tmp_path / "spool"
    spool.write_text(json.dumps([1, "host", {"cpu_ratio": 0.5}]) + "\n" + '[2, "host", {"cpu_')
    convert_spool(spool, tmp_path / "m.parquet", "killed")
    seen = read_recording(tmp_path / "m.parquet")
    assert seen.series["host", "cpu_ratio"].values.tolist() == [0.5]
    assert seen.about["problem"] == "killed"


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    """Anything but a recording is a StorageError that names the file."""
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    with pytest.raises(StorageError, match=r"x\.parquet holds no monitors"):
        read_recording(tmp_path / "x.parquet")
