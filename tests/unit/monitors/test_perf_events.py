"""What the kernel counts for a program that is started, by events that every machine has."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks.monitors import perf_events
from inferbench_tasks.monitors.perf_events import COUNTS, Count, Event, counted

#: PERF_TYPE_SOFTWARE: the time on a core in ns, faults of pages. No processor has to count them.
SOFTWARE = (Event("task_clock", 1, 1), Event("page_faults", 1, 2))
_WHY = perf_events.unavailable(SOFTWARE)
counts = pytest.mark.skipif(bool(_WHY), reason=f"this kernel counts nothing for this user: {_WHY}")
#: Two threads that compute for 50 ms each, one after the other, and a process that does so, too.
WORK = """
import os, sys, threading, time
def burn():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
thread = threading.Thread(target=burn)
thread.start(); thread.join(); burn()
if not os.fork():
    burn(); os._exit(0)
os.wait()
print(os.environ.get("INFERBENCH_COUNTS", ""))
"""


@counts
def test_all_that_a_program_starts_is_counted() -> None:
    """Its threads and its processes, also of those that have ended; not what was done before by who started it."""
    end = os.times().user + 0.3
    while os.times().user < end:
        pass
    descriptors = perf_events.opened(SOFTWARE)
    try:
        before = {name: perf_events.read(at) for name, at in descriptors.items()}
        subprocess.run([sys.executable, "-c", WORK], check=True, stdout=subprocess.DEVNULL)
        after = {name: perf_events.read(at) for name, at in descriptors.items()}
    finally:
        perf_events.close(descriptors)
    assert before["task_clock"].value < 100e6
    used = {name: counted(before[name], after[name]) for name in descriptors}
    clock, share = used["task_clock"]
    assert clock is not None and clock >= 150e6 and share == 1.0
    # An interpreter touches some hundreds of pages.
    assert (used["page_faults"][0] or 0) > 100


@counts
def test_a_program_gets_its_counters_and_hands_them_to_nobody() -> None:
    """The variable names open files, which a program started by that one has not got."""
    program = (
        "import os, subprocess, sys\n"
        "from inferbench_tasks.monitors import perf_events\n"
        "files = perf_events.passed_on(os.environ)\n"
        "assert sorted(files) == ['page_faults', 'task_clock']\n"
        "assert perf_events.read(files['task_clock']).value > 0\n"
        "seen = subprocess.check_output(['ls', '/proc/self/fd'], close_fds=False, text=True).split()\n"
        "assert not {str(at) for at in files.values()} & set(seen), seen\n"
    )
    descriptors = perf_events.opened(SOFTWARE)
    try:
        environment = os.environ | perf_events.named(descriptors)
        subprocess.run(
            [sys.executable, "-c", program], env=environment, pass_fds=tuple(descriptors.values()), check=True
        )
    finally:
        perf_events.close(descriptors)


def test_without_counters_nothing_is_named() -> None:
    """A program that got none finds none."""
    assert perf_events.named({}) == {} and perf_events.passed_on({}) == {}
    assert perf_events.named({"a": 5, "b": 6}) == {COUNTS: "a=5,b=6"}


def test_what_was_counted_in_part_is_scaled() -> None:
    """300 in a third of the time are 900, of which that share is told; with no time at all nothing is known."""
    before = Count(100, 1_000, 400)
    value, share = counted(before, Count(400, 4_000, 1_400))
    assert value == pytest.approx(900) and share == pytest.approx(1 / 3)
    assert counted(before, Count(400, 4_000, 3_400)) == (300, 1.0)
    assert counted(before, Count(100, 4_000, 400)) == (None, 0.0)
    assert counted(before, before) == (0, 1.0)  # nothing ran


def test_it_is_all_events_or_none() -> None:
    """One that no kernel knows: an error, and no file stays open."""
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="."):
        perf_events.opened((*SOFTWARE, Event("nonsense", 1, 1_000_000)))
    assert perf_events.opened_if_any((Event("nonsense", 1, 1_000_000),)) == {}
    assert len(os.listdir("/proc/self/fd")) == files


@pytest.mark.parametrize(
    ("number", "level", "words"),
    [
        (errno.ENOENT, "2", "no PMU.*pmu=on"),
        (errno.EACCES, "4", "is 4.*perf_event_paranoid=2"),
        (errno.EPERM, "1", "--cap-add PERFMON"),
        (errno.EPERM, None, "is missing"),
        (errno.ENOSYS, "2", "perf_event_open: "),
    ],
)
def test_why_nothing_is_counted_is_said_with_a_remedy(
    number: int, level: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the kernel's answer, and by what it allows users."""

    def refused(event: Event) -> int:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "paranoid"
    if level is not None:
        path.write_text(level)
    monkeypatch.setattr(perf_events, "_PARANOID", path)
    monkeypatch.setattr(perf_events, "_open", refused)
    why = perf_events.unavailable()
    assert why is not None
    assert re.search(words, why), why
