"""What a group of processes used, those among them that nobody saw."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from inferbench_tasks.monitors.process_group import ProcessGroup

#: Five children in turns, each of which uses 0.2 s of a core and ends; one of them has a child of its own that does.
PARENT = """
import os, sys, time

def use(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def child(work, *arguments):
    pid = os.fork()
    if not pid:
        work(*arguments)
        os._exit(0)
    os.waitpid(pid, 0)

sys.stdin.readline()
for number in range(4):
    child(use, 0.2)
child(child, use, 0.2)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("looks", ["never", "often"])
def test_children_that_come_and_go_are_counted_once(looks: str) -> None:
    """1 s of a core, whether each was seen until shortly before its end or none of them at all: neither nothing nor
    twice as much.
    """
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    ) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        group = ProcessGroup(parent.pid, session=True)
        group.scan()
        before_s = group.sample()["cpu_s_total"]
        parent.stdin.write("begin\n")
        if looks == "often":
            end_s = time.monotonic() + 0.8
            while time.monotonic() < end_s:
                group.scan()
                group.sample()
                time.sleep(0.01)
        assert parent.stdout.readline() == "done\n"
        group.scan()
        used_s = group.sample()["cpu_s_total"] - before_s
        parent.stdin.write("end\n")
    assert used_s == pytest.approx(1.0, abs=0.15)


#: A process whose child uses half a second of a core; both end, and are waited for, between two looks.
ENDING_TOGETHER = """
import os, sys, time

def child(work, *arguments):
    pid = os.fork()
    if pid == 0:
        work(*arguments)
        os._exit(0)
    return pid

def use(seconds, told, go):
    begun = time.process_time()
    while time.process_time() - begun < seconds:
        pass
    os.write(told, b"x")
    os.read(go, 1)

def middle(told, go):
    os.waitpid(child(use, 0.5, told, go), 0)

(heard, told), (wait, go) = os.pipe(), os.pipe()
sys.stdin.readline()
pid = child(middle, told, wait)
os.read(heard, 1)
print("used", flush=True)
sys.stdin.readline()
os.write(go, b"x")
os.waitpid(pid, 0)
print("done", flush=True)
sys.stdin.readline()
"""


def test_a_child_that_ends_with_its_parent_is_counted_once() -> None:
    """Half a second of a core that was seen; then who used it and who waited for it are gone at once, and the first
    process tells of both: it is half a second still, not a whole one."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDING_TOGETHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        start_new_session=True,
    ) as leader:
        assert leader.stdin is not None and leader.stdout is not None
        group = ProcessGroup(leader.pid, session=True)
        group.scan()
        before_s = group.sample()["cpu_s_total"]
        leader.stdin.write("begin\n")
        assert leader.stdout.readline() == "used\n"
        group.scan()
        seen_s = group.sample()["cpu_s_total"] - before_s
        leader.stdin.write("go on\n")
        assert leader.stdout.readline() == "done\n"
        group.scan()
        used_s = group.sample()["cpu_s_total"] - before_s
        leader.stdin.write("end\n")
    assert seen_s == pytest.approx(0.5, abs=0.1) and used_s == pytest.approx(0.5, abs=0.1)
