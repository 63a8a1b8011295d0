"""What the machine as a whole tells where its files are long, and where volumes lie on disks."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from inferbench_tasks.monitors import host
from inferbench_tasks.monitors.base import Target
from inferbench_tasks.monitors.host import HostMonitor, whole

PAGE = 4096
#: What the kernel tells of one core is about a third of a page long.
CORE = "processor\t: {n}\nflags\t\t: " + "fpu " * 330 + "\ncpu MHz\t\t: {mhz}.000\n\n"
#: major, minor, name; reads, merged, sectors read, ms; writes, merged, sectors written, ms; and more.
DISK = " 253 0 {name} 10 0 {read} 5 10 0 {written} 5 0 0 0\n"


class Pages(io.BytesIO):
    """Gives a page at most for each reading, as the kernel does."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(PAGE if size is None or size < 0 else min(size, PAGE))


def sampled(monkeypatch: pytest.MonkeyPatch, **texts: str) -> dict[str, float]:
    """A first sample of this machine with other texts in place of some files."""
    monkeypatch.setattr(host, "_CPUS", Path("/nowhere"))
    monitor = HostMonitor(Target(pid=os.getpid(), started_ns=0))
    for name, text in texts.items():
        monitor._files[name].close()
        monitor._files[name] = Pages(text.encode())  # type: ignore[assignment]
    try:
        return monitor.sample()
    finally:
        monitor.close()


def test_a_file_of_several_pages_is_read_to_its_end() -> None:
    """A real one of the kernel's: its last line is there, and one reading does not reach it."""
    with open("/proc/self/smaps", "rb", buffering=0) as file:
        first = file.read(1 << 20)
        file.seek(0)
        text = whole(file)
    assert len(first) < len(text) and text.rstrip().rsplit(b"\n", 1)[-1].startswith(b"VmFlags:")


def test_the_clocks_of_all_cores_of_a_large_machine_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cores at 1000, 1100, ... 1700 MHz: 1350 MHz on average; the first page has two of them."""
    text = "".join(CORE.format(n=n, mhz=1000 + 100 * n) for n in range(8))
    assert len(text) > 2.5 * PAGE
    found = sampled(monkeypatch, cpuinfo=text)
    assert [found[f"core{n}_frequency_mhz"] for n in range(8)] == [1000.0 + 100 * n for n in range(8)]
    assert found["frequency_mhz"] == 1350.0


def test_the_traffic_of_all_interfaces_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty of them, as of a host of containers, each with 1,000 bytes in and 10 out."""
    head = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n"
    rows = "".join(f"veth{n:08d}: 1000 1 0 0 0 0 0 0 10 1 0 0 0 0 0{' ' * 60}0\n" for n in range(60))
    found = sampled(monkeypatch, net=head + rows)
    assert found["network_received_bytes_total"] == 60_000 and found["network_sent_bytes_total"] == 600


def test_bytes_of_a_volume_are_those_of_its_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On vda a partition with LUKS and LVM, md over two NVMe disks, a loop device, memory: 100 + 2 x 30 sectors were
    read and 50 + 2 x 20 written.
    """
    for name in ("vda", "nvme0n1", "nvme1n1"):
        (tmp_path / name / "device").mkdir(parents=True)
    for name in ("dm-0", "dm-1", "md0", "loop0", "zram0"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(host, "_BLOCK", tmp_path)
    of = {"vda": (100, 50), "vda1": (100, 50), "dm-0": (100, 50), "dm-1": (100, 50), "nvme0n1": (30, 20),
          "nvme1n1": (30, 20), "md0": (60, 40), "loop0": (7, 0), "zram0": (9, 9)}  # fmt: skip
    rows = "".join(DISK.format(name=name, read=read, written=written) for name, (read, written) in of.items())
    found = sampled(monkeypatch, disks=rows)
    assert found["disk_read_bytes_total"] == 160 * 512
    assert found["disk_written_bytes_total"] == 90 * 512


def test_what_is_read_once_a_second_is_so_however_often_the_sampler_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every 0.1 s the eleventh sample has it again, a little early or not; every 1.6 s each has."""
    monitor = HostMonitor(Target(pid=os.getpid(), started_ns=0))
    now_s = 0.0
    monkeypatch.setattr("inferbench_tasks.monitors.host.time.monotonic", lambda: now_s)
    seen = []
    for step in range(21):
        now_s = 0.1 * step - (0.02 if step == 10 else 0)
        seen.append("network_sent_bytes_total" in monitor.sample())
    assert [step for step, there in enumerate(seen) if there] == [0, 10, 20]
    for step in range(3):
        now_s = 10 + 1.6 * step
        assert "network_sent_bytes_total" in monitor.sample()
    monitor.close()
