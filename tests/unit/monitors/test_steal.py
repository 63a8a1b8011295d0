"""What the hypervisor took of cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.monitors.steal import StolenTime


def write(path: Path, *steal: int) -> Path:
    """As /proc/stat: the machine's line, then each core's."""
    lines = [f"cpu  9 9 9 9 9 9 9 {sum(steal)} 0 0"]
    lines += [f"cpu{core} 9 9 9 9 9 9 9 {ticks} 0 0" for core, ticks in enumerate(steal)]
    path.write_text("\n".join([*lines, "intr 5 1 1", "ctxt 7"]) + "\n")
    return path


@pytest.mark.parametrize(("cores", "least_ms"), [([0], 0), ([1], 40), ([2], 90), ([1, 2], 65), ([0, 1], 20)])
def test_of_the_cores_alone_and_without_a_tick_that_may_be_of_before(
    tmp_path: Path, cores: list[int], least_ms: float
) -> None:
    """Of three cores that lost nothing, 5 and 10 ticks of 10 ms."""
    stolen = StolenTime(cores, write(tmp_path / "stat", 3, 100, 200), machine_cores=3)
    assert stolen.least_ns() == 0
    write(tmp_path / "stat", 3, 105, 210)
    assert stolen.least_ns() == int(least_ms * 1e6)


def test_where_the_kernel_does_not_tell_nothing_is_known(tmp_path: Path) -> None:
    """No file; lines without the column; a core that is not counted, or went away since. Where fewer or more are
    counted than the machine has, their numbers may be others'."""
    assert StolenTime([0], tmp_path / "none", machine_cores=1).least_ns() is None
    (tmp_path / "old").write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\n")
    assert StolenTime([0], tmp_path / "old", machine_cores=1).least_ns() is None
    two = write(tmp_path / "stat", 3, 100)
    assert StolenTime([0], two, machine_cores=2).least_ns() == 0
    for cores, machine_cores in (([7], 2), ([0, 7], 2), ([0], 3), ([0], 1)):
        assert StolenTime(cores, two, machine_cores=machine_cores).least_ns() is None
    stolen = StolenTime([1], two, machine_cores=2)
    write(tmp_path / "stat", 3)
    assert stolen.least_ns() is None
