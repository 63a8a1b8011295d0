"""Every source of the level hardware: whose figures it tells, tried by work of a known size."""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable

import pytest

from inferbench_tasks.monitors import perf_events
from inferbench_tasks.servers.sources.base import HARDWARE, HardwareSource, Used
from inferbench_tasks.servers.sources.perf_counters import PerfCounters
from inferbench_tasks.servers.sources.process_use import ProcessUse
from inferbench_tasks.servers.sources.thread_use import ThreadUse
from tests.unit.monitors.test_perf_events import SOFTWARE, counts

pytestmark = pytest.mark.integration
BURNT_S = 0.05
PAGES = 500


def burn() -> None:
    """So much time on a core, and so many pages touched for the first time."""
    end = time.thread_time() + BURNT_S
    while time.thread_time() < end:
        pass
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1


def elsewhere() -> None:
    """The same in another thread, while this one waits."""
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()


def used(source: HardwareSource, work: Callable[[], None]) -> Used:
    """By the second of two runs, as of a server that was warmed up."""
    source.start()
    source.stop()
    source.start()
    work()
    return source.stop()


@pytest.mark.parametrize("kind", list(HARDWARE))
def test_every_source_says_what_it_tells_or_why_not(kind: str) -> None:
    """A card in words; where it is not here, the words have what helps; and nothing that it tells is negative."""
    source = HARDWARE.load(kind)
    assert source.title and source.tells
    why = source.unavailable()
    assert why is None or len(why) > 20
    assert all(value is None or value >= 0 for value in used(source(), burn).values())


def test_a_thread_s_figures_are_its_own() -> None:
    """What it did itself is in them, and what another thread did is not; a wait for that one is a switch."""
    own, other = used(ThreadUse(), burn), used(ThreadUse(), elsewhere)
    assert BURNT_S * 1e9 <= (own["cpu_ns"] or 0) < 5 * BURNT_S * 1e9
    assert (own["faults_minor"] or 0) >= PAGES
    assert (other["cpu_ns"] or 0) < BURNT_S * 1e9 / 2
    assert (other["faults_minor"] or 0) < PAGES
    assert (other["switches_voluntary"] or 0) >= 1


def test_a_process_s_figures_are_of_all_threads() -> None:
    """Also of one that began meanwhile."""
    for work in (burn, elsewhere):
        figures = used(ProcessUse(), work)
        assert (figures["process_cpu_ns"] or 0) >= BURNT_S * 1e9
        assert (figures["process_faults_minor"] or 0) >= PAGES


@counts
def test_counters_are_of_all_threads_that_began_since() -> None:
    """By events that need no PMU: the time is that of the clock of the process, the faults are those of its pages."""
    descriptors = perf_events.opened(SOFTWARE)
    try:
        for work in (burn, elsewhere):
            figures = used(PerfCounters(descriptors), work)
            assert (figures["process_task_clock"] or 0) >= BURNT_S * 1e9 * 0.99
            assert (figures["process_page_faults"] or 0) >= PAGES
            assert "counted_ratio" not in figures
    finally:
        perf_events.close(descriptors)


def test_a_process_that_got_no_counters_tells_nothing_of_them() -> None:
    """Rather than zeros."""
    assert used(PerfCounters({}), burn) == {}
