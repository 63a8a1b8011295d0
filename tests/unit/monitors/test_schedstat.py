"""Waits for a core as the kernel counts them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from inferbench_tasks.monitors.schedstat import ThreadWaits, of_processes, parse


def thread(proc: Path, name: str, text: str) -> Path:
    file = proc / "task" / name / "schedstat"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_schedstat_has_three_numbers() -> None:
    """Time on a core, time waited for one, time slices; anything else is refused."""
    assert parse(b"182498 2620978 2\n") == (182498, 2620978, 2)
    for text in (b"", b"1 2\n", b"1 2 3 4\n", b"a b c\n"):
        with pytest.raises(ValueError, match="schedstat|invalid literal"):
            parse(text)


def test_waits_of_all_threads_are_added_from_when_each_is_found(tmp_path: Path) -> None:
    """What a thread waited before counts nowhere; what it waited until it ended stays."""
    one, two = thread(tmp_path, "1", "5 100 1\n"), thread(tmp_path, "2", "5 1000 1\n")
    waits = ThreadWaits(tmp_path)
    assert waits.known and waits.read_ns() == 0
    one.write_text("6 130 2\n")
    two.write_text("6 1004 2\n")
    assert waits.read_ns() == 34
    three = thread(tmp_path, "3", "0 500 1\n")
    assert waits.read_ns() == 34
    waits.find()
    three.write_text("0 507 1\n")
    assert waits.read_ns() == 41
    two.write_text("")  # as the file of a thread that ended: nothing can be read
    assert waits.read_ns() == 41
    one.write_text("6 131 2\n")
    assert waits.read_ns() == 42
    waits.close()


def test_without_statistics_there_is_no_figure(tmp_path: Path) -> None:
    """Null, never zero."""
    (tmp_path / "task" / "1").mkdir(parents=True)
    waits = ThreadWaits(tmp_path)
    assert not waits.known and waits.read_ns() is None
    assert of_processes([1], tmp_path) is None


def test_this_process_has_threads_that_come_and_go() -> None:
    """A sum that never falls."""
    waits = ThreadWaits()
    if not waits.known:
        pytest.skip("this kernel keeps no schedstat")
    last = waits.read_ns()
    for _ in range(20):
        worker = threading.Thread(target=sum, args=(range(1000),))
        worker.start()
        waits.find()
        worker.join()
        now = waits.read_ns()
        assert now is not None and last is not None and now >= last
        last = now
    waits.close()
    times = of_processes([os.getpid()])
    assert times is not None and times[0] > 0
