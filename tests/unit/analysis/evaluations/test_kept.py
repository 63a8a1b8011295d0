"""What was made once is kept, in several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from inferbench_tasks.analysis.evaluations.kept import Kept


def test_the_ones_that_were_asked_for_last_are_kept() -> None:
    """Of three two: the first was asked for again, so that the second is given up; None is no value."""
    kept: Kept[str, int] = Kept(2)
    kept.put("one", 1)
    kept.put("two", 2)
    assert kept.get("one") == 1
    kept.put("three", 3)
    assert (kept.get("one"), kept.get("two"), kept.get("three")) == (1, None, 3)
    kept.put("one", 4)
    assert kept.get("one") == 4


def test_threads_that_give_up_what_others_ask_for_do_no_harm() -> None:
    """Four threads ask for eight keys and put them again where there is room for one."""
    kept: Kept[int, int] = Kept(1)

    def use(thread: int) -> bool:
        for at in range(2_000):
            key = (at + thread) % 8
            if kept.get(key) not in (None, key * 10):
                return False
            kept.put(key, key * 10)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(4)))
