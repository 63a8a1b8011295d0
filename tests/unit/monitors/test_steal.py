"""What the hypervisor took of cores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from inferbench_tasks.monitors.steal import StolenTime


def write(path: Path, steal: Mapping[int, int]) -> Path:
    """As /proc/stat: the machine's line, then that of each core that is on."""
    lines = [f"cpu  9 9 9 9 9 9 9 {sum(steal.values())} 0 0"]
    lines += [f"cpu{core} 9 9 9 9 9 9 9 {ticks} 0 0" for core, ticks in steal.items()]
    path.write_text("\n".join([*lines, "intr 5 1 1", "ctxt 7"]) + "\n")
    return path


def machine(folder: Path, present: str, online: str, offline: str = "") -> Path:
    """What sysfs says of cores."""
    folder.mkdir(exist_ok=True)
    for name, cores in (("present", present), ("online", online), ("offline", offline)):
        (folder / name).write_text(f"{cores}\n")
    return folder


@pytest.mark.parametrize(("cores", "least_ms"), [([0], 0), ([1], 40), ([2], 90), ([1, 2], 65), ([0, 1], 20)])
def test_of_the_cores_alone_and_without_a_tick_that_may_be_of_before(
    tmp_path: Path, cores: list[int], least_ms: float
) -> None:
    """Of three cores that lost nothing, 5 and 10 ticks of 10 ms."""
    cpus = machine(tmp_path / "cpu", "0-2", "0-2")
    stolen = StolenTime(cores, write(tmp_path / "stat", {0: 3, 1: 100, 2: 200}), cpus)
    assert stolen.least_ns() == 0
    write(tmp_path / "stat", {0: 3, 1: 105, 2: 210})
    assert stolen.least_ns() == int(least_ms * 1e6)


def test_a_core_that_is_switched_off_leaves_the_others_judged(tmp_path: Path) -> None:
    """Of four cores the second is off, before or from some moment on; of itself nothing is known then."""
    stat, all_on = tmp_path / "stat", {0: 3, 1: 7, 2: 100, 3: 0}
    without = {0: 3, 2: 105, 3: 0}
    cpus = machine(tmp_path / "cpu", "0-3", "0-3")
    before, itself = StolenTime([2], write(stat, all_on), cpus), StolenTime([1], stat, cpus)
    machine(tmp_path / "cpu", "0-3", "0,2-3", "1")
    write(stat, without)
    assert (before.least_ns(), itself.least_ns()) == (40_000_000, None)
    after = StolenTime([0, 2], stat, cpus)
    write(stat, {**without, 2: 116})
    assert after.least_ns() == 50_000_000
    assert StolenTime([1, 2], stat, cpus).least_ns() is None


@pytest.mark.parametrize(
    ("present", "online", "offline"),
    [("0-2", "0-2", ""), ("0-7", "0-1", ""), ("0-7", "0-1", "5"), ("0", "0", ""), ("0,2", "0,2", "")],
)
def test_cores_that_were_counted_anew_are_nobody_s(
    tmp_path: Path, present: str, online: str, offline: str
) -> None:
    """More or fewer lines than the machine has cores that are on, also where ``online`` was made to agree with them."""
    cpus = machine(tmp_path / "cpu", present, online, offline)
    assert StolenTime([0], write(tmp_path / "stat", {0: 3, 1: 100}), cpus).least_ns() is None


def test_where_the_kernel_does_not_tell_nothing_is_known(tmp_path: Path) -> None:
    """No file; lines without the column; a core that there is none of; no word of which cores there are."""
    two, cpus = write(tmp_path / "stat", {0: 3, 1: 100}), machine(tmp_path / "cpu", "0-1", "0-1")
    assert StolenTime([0], tmp_path / "none", cpus).least_ns() is None
    (tmp_path / "old").write_text("cpu 1 2 3 4\ncpu0 1 2 3 4\ncpu1 1 2 3 4\n")
    assert StolenTime([0], tmp_path / "old", cpus).least_ns() is None
    assert StolenTime([0], two, cpus).least_ns() == 0
    for cores in ([7], [0, 7]):
        assert StolenTime(cores, two, cpus).least_ns() is None
    assert StolenTime([0], two, tmp_path / "no sysfs").least_ns() is None
    (cpus / "offline").unlink()  # as of a kernel that can switch none off
    assert StolenTime([0], two, cpus).least_ns() == 0
