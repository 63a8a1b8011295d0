"""What the kernel tells of the want of memory, from files as it writes them."""

from __future__ import annotations

import os
from pathlib import Path

from inferbench_tasks.monitors.memory_stalls import read

STAT = "7 (a (b) c) S 1 7 7 0 -1 4194304 500 0 {faults} 0 10 5 0 0 20 0 1 0 100 1000 50\n"
PRESSURE = (
    "some avg10=1.00 avg60=0.50 avg300=0.10 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n"
)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def kernel(folder: Path, cgroup: str = "0::/\n") -> tuple[Path, Path]:
    """A /proc with process 7, and a folder of cgroups."""
    proc, cgroups = folder / "proc", folder / "cgroup"
    for path in (proc / "7", proc / "self", proc / "pressure", cgroups):
        path.mkdir(parents=True)
    (proc / "7" / "stat").write_text(STAT.format(faults=42))
    (proc / "self" / "cgroup").write_text(cgroup)
    (proc / "pressure" / "memory").write_text(PRESSURE.format(some=2_500_000))
    (proc / "vmstat").write_text("nr_free_pages 5\npswpin 10\npswpout 20\n")
    return proc, cgroups


def test_faults_stalls_and_swapping_are_read(tmp_path: Path) -> None:
    """A name with parentheses shifts nothing; a process that has ended counts no faults."""
    now = read([7, 8], *kernel(tmp_path))
    assert (now.major_faults, now.stalled_s, now.scope) == (42, 2.5, "machine")
    assert (now.swapped_in_bytes, now.swapped_out_bytes) == (10 * PAGE_BYTES, 20 * PAGE_BYTES)


def test_the_own_cgroups_pressure_goes_before_the_machines(tmp_path: Path) -> None:
    """Of version 2; its stalls are the training's own."""
    proc, cgroups = kernel(tmp_path, "1:cpu:/x\n0::/jobs/a\n")
    own = cgroups / "jobs" / "a"
    own.mkdir(parents=True)
    (own / "memory.pressure").write_text(PRESSURE.format(some=1_000_000))
    now = read([7], proc, cgroups)
    assert (now.stalled_s, now.scope) == (1.0, "cgroup")


def test_a_kernel_that_tells_nothing_is_no_zero(tmp_path: Path) -> None:
    """Without PSI and vmstat there is no figure."""
    proc, cgroups = kernel(tmp_path)
    (proc / "pressure" / "memory").unlink()
    (proc / "vmstat").unlink()
    now = read([7], proc, cgroups)
    assert (now.stalled_s, now.scope, now.swapped_in_bytes, now.swapped_out_bytes) == (None, None, None, None)


def test_this_kernels_own_files_are_read() -> None:
    """As they are here."""
    assert read([os.getpid()]).major_faults >= 0
