"""Several small things at once: so many and no more, and after an error none begins."""

from __future__ import annotations

import threading

import pytest

from inferbench_tasks.stores.several import AT_ONCE, several


def test_so_many_go_on_at_once_and_are_told_in_their_order() -> None:
    """Each waits until as many others do the same: fewer at once would wait for ever."""
    together = threading.Barrier(AT_ONCE, timeout=60)
    threads: set[int] = set()
    done: list[int] = []

    def work(item: int) -> None:
        together.wait()
        threads.add(threading.get_ident())

    several(work, range(10 * AT_ONCE), done.append)
    assert done == list(range(10 * AT_ONCE)) and len(threads) == AT_ONCE


def test_after_an_error_none_begins() -> None:
    """Of a thousand few were begun; those have ended by then."""
    begun: list[int] = []

    def work(item: int) -> None:
        begun.append(item)
        raise ValueError(item)

    with pytest.raises(ValueError, match="^0$"):
        several(work, range(1000))
    assert len(begun) <= 3 * AT_ONCE
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("artifacts")]


def test_an_error_of_who_is_told_ends_it_too() -> None:
    """As a job that was cancelled does."""
    begun: list[int] = []

    def end(item: int) -> None:
        raise KeyError(item)

    with pytest.raises(KeyError):
        several(begun.append, range(1000), end)
    assert len(begun) <= 3 * AT_ONCE
