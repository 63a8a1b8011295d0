"""Pre- and post-processing: what stands between a user's data and a model's tensors.

A processor turns one batch into another. It runs on the client before the load, or in the server; the
caller times it (``timed``), because what is done to the data is part of the latency that a user sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from inferbench_tasks.registry import Registry


class Processor(Protocol):
    """Built from its settings; called with a batch."""

    kind: ClassVar[str]

    def __call__(self, batch: Any, /) -> Any:
        """The processed batch; InputError where a sample can't be read, with its position."""
        ...


PROCESSORS: Registry[Callable[..., Processor]] = Registry(
    "processor",
    "inferbench.processors",
    {
        "image": "inferbench_tasks.processors.image:Image",
        "tokenizer": "inferbench_tasks.processors.text:Tokenizer",
        "video": "inferbench_tasks.processors.video:Video",
        "audio": "inferbench_tasks.processors.audio:Audio",
        "labels": "inferbench_tasks.processors.labels:Labels",
        "nms": "inferbench_tasks.processors.nms:NonMaximumSuppression",
    },
)


def timed(processor: Processor, batch: Any) -> tuple[Any, int]:
    """The processed batch and the time it took, ns."""
    started_ns = time.monotonic_ns()
    result = processor(batch)
    return result, time.monotonic_ns() - started_ns
