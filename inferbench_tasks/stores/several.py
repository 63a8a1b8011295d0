"""Many small things over a network take a round trip each: several are done at once, and no more than that."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

#: So many at once: of objects of ``SMALL_BYTES`` at most they take no more memory than the parts of a large one.
AT_ONCE = 16
SMALL_BYTES = 4 << 20
T = TypeVar("T")


def several(
    work: Callable[[T], object], items: Iterable[T], done: Callable[[T], None] = lambda item: None
) -> None:
    """Do the work on each item, in threads; ``done`` is called here, in the order of the items.

    The first error of either is raised: what has not begun by then never does, what has begun has ended.
    """
    begun: deque[tuple[T, Future[object]]] = deque()

    def end_first() -> None:
        item, future = begun.popleft()
        future.result()
        done(item)

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="artifacts") as pool:
        try:
            for item in items:
                begun.append((item, pool.submit(work, item)))
                if len(begun) > 2 * AT_ONCE:
                    end_first()
            while begun:
                end_first()
        finally:
            for _, future in begun:
                future.cancel()
