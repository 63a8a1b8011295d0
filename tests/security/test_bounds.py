"""The limits of the corpus bite: what an input costs or leaves behind is seen."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.security.bounds import Limits, Writes, measured


@pytest.fixture
def writes() -> Writes:
    """A watch of this test's own."""
    return Writes()


def test_an_input_that_takes_time_or_memory_is_seen(writes: Writes, tmp_path: Path) -> None:
    """CPU time and the peak of memory are measured, also of children."""
    with measured(writes, tmp_path) as cost:
        taken = bytearray(200 * 2**20)
        del taken
        sum(range(3_000_000))
    assert 190 < cost.mib < 300
    assert cost.exceeds(Limits(cpu_s=0.001, mib=500)) and cost.exceeds(Limits(mib=100))
    assert not cost.exceeds(Limits(mib=400))
    with measured(writes, tmp_path) as cost:
        code = f"taken = bytearray({450 * 2**20})"
        subprocess.run([sys.executable, "-c", code], check=True)
    assert cost.mib > 440 or _something_was_larger()
    with measured(writes, tmp_path) as cost:
        here = bytearray(600 * 2**20)
        subprocess.run([sys.executable, "-c", ""], check=True)
        del here
    assert 590 < cost.mib < 700, "what a child shares until it starts its program is not its own"


def test_an_input_that_leaves_a_file_or_process_is_seen(writes: Writes, tmp_path: Path) -> None:
    """Outside of its folder; in the folder for temporary files too, and a process that lost its parent."""
    elsewhere = Path(f"/tmp/inferbench-corpus-{os.getpid()}")
    with measured(writes, tmp_path) as cost:
        (tmp_path / "own").write_text("x")
        elsewhere.write_text("x")
        elsewhere.unlink()
    assert cost.traces == [f"wrote {elsewhere}"]
    with measured(writes, tmp_path) as cost:
        orphan = subprocess.run(
            ["sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
        )
        subprocess.run(["mktemp"], stdout=subprocess.DEVNULL, check=True)
    os.kill(int(orphan.stdout), 9)
    os.waitpid(int(orphan.stdout), 0)
    assert [trace.split()[:3] for trace in cost.traces[:1]] == [["left", "the", "process"]]
    assert cost.traces[1].startswith("left /tmp/ib")


def _something_was_larger() -> bool:
    """Whether the peak of an earlier child, or of this process, hides that of the child."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    return any(usage.ru_maxrss > 460 * 1024 for usage in usages)
