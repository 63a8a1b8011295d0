"""A batch with times on its way from the loader process that made it into its rank: the moments that it passes.

``multiprocessing``'s queue has a thread of its own in the loader process, which serialises what was put into it and
writes it to a pipe, and deserialises in who reads. Neither has a hook; but an object tells pickle how it is sent, and
what is called where it arrives. So a batch brings its own stamps: pickle takes the arguments of a reduced object in
their order, so that the images are between the first and the last of them. Without a queue nothing of it is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from inferbench_tasks.training.making import USED

#: Parts of making a batch: sums over its items, ns.
MADE: Final = ("read", "decode", "transform", "collate")
#: ``queued`` is from the end of a batch to the moment in which its rank has it. Of one that another process made it is
#: the sum of the others: ``serialise`` there, ``deserialise`` here, and ``queue_wait``, all that is neither.
HANDED: Final = ("queued", "queue_wait", "serialise", "deserialise")
#: What is told of each batch.
PARTS: Final = (*MADE, *USED, *HANDED)
_END = len(MADE) + len(USED)


class Times(list[Any]):
    """The values of ``MADE`` and ``USED``, ns, and moments: of the batch's end, and of one that came from another
    process the begin and the end of serialising there and of deserialising here.
    """

    @property
    def serialised_ns(self) -> int | None:
        """When it lay ready for the rank; None of a batch that the rank made itself."""
        return self[_END + 2] if len(self) > _END + 1 else None

    def pin_memory(self) -> Times:
        """torch's thread calls it behind the images and labels of the batch, which it has copied into page-locked
        memory then: that is a part of receiving them.
        """
        if self.serialised_ns is not None:
            self[-1] = time.monotonic_ns()
        return self


class Batch(tuple[Any, Any, Times]):
    """Images, labels and times."""

    def __reduce__(self) -> tuple[Any, ...]:
        images, labels, times = self
        begun_ns = time.monotonic_ns()
        return _received, (list(times), begun_ns, _WhenRead(), images, labels, _WhenSent())


class _WhenRead:
    """The moment in which it is deserialised."""

    def __reduce__(self) -> tuple[Callable[[], int], tuple[()]]:
        return time.monotonic_ns, ()


class _WhenSent:
    """The moment in which it is serialised."""

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (time.monotonic_ns(),)


def _received(times: list[int], begun_ns: int, read_ns: int, images: Any, labels: Any, sent_ns: int) -> Batch:
    """The batch where it arrives; called last, when images and labels are there."""
    return Batch((images, labels, Times([*times, begun_ns, sent_ns, read_ns, time.monotonic_ns()])))


def parts_ns(times: Times | None) -> list[int | None]:
    """The values of ``PARTS`` of a batch that has just come; Nones of one that is not timed, and of its way where there
    was none.
    """
    if times is None:
        return [None] * len(PARTS)
    queued_ns = time.monotonic_ns() - times[_END]
    if times.serialised_ns is None:
        return [*times[:_END], queued_ns, None, None, None]
    begun_ns, sent_ns, read_ns, received_ns = times[_END + 1 :]
    serialise_ns, deserialise_ns = sent_ns - begun_ns, received_ns - read_ns
    wait_ns = queued_ns - serialise_ns - deserialise_ns
    return [*times[:_END], queued_ns, wait_ns, serialise_ns, deserialise_ns]
