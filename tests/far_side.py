"""The side of a link that is measured, in a thread of the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from inferbench_tasks.networks.links.far_side import NO_MORE, FarSide


@contextmanager
def listening(
    patience_s: float = 20.0, more: Mapping[bytes, Callable[[], str]] = NO_MORE
) -> Iterator[tuple[FarSide, list[Any]]]:
    """A far side in a thread, and what it said in the end: the peer, None, or an error."""
    ends: list[Any] = []
    with FarSide("127.0.0.1", 0, "far", "f" * 32) as far:

        def serve() -> None:
            try:
                ends.append(far.serve(patience_s, more))
            except ConnectionError as error:
                ends.append(error)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield far, ends
        thread.join(10)
        assert not thread.is_alive()
