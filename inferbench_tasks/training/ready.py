"""What a rank takes to get a batch that lies ready: how that grows with its samples."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from inferbench_tasks.training.items import collate
from inferbench_tasks.training.own_step import first_items

if TYPE_CHECKING:
    from inferbench_tasks.training.rank import Rank

#: Batches that are taken, and those among them that have to have lain ready.
BATCHES, LEAST_READY = 20, 5
#: What they take at most, in making a batch: the first three, and of each other one twice that before it.
STEPS = 3 + 3 * (BATCHES - 3)
_PATIENCE_S = 60.0
_PAGE_BYTES = 4096


def ready_ms(rank: Rank, samples: int) -> float | None:
    """The median of batches of so many samples that a loader process had serialised before they were asked for, as
    their own stamps say (``sending``); None where too few had been.

    From asking for it, on a CPU until something of each of its pages was read: what is mapped first when it is touched
    is a part of handing it over (a GPU's copy reads them, which is timed as that). A batch is asked for after as long a
    time as two in a row take, so that its process has made the next one.
    """
    from torch.utils.data import DataLoader

    first = first_items(rank)
    timed = [(*first[at % len(first)], (0, 0, 0)) for at in range(samples * BATCHES)]
    batches = iter(DataLoader(timed, samples, num_workers=1, collate_fn=collate, timeout=_PATIENCE_S))
    next(batches)
    begun_s = time.monotonic()
    next(batches)
    next(batches)
    pause_s = time.monotonic() - begun_s
    times_ns = []
    for _ in range(BATCHES - 3):
        time.sleep(pause_s)
        start_ns = time.monotonic_ns()
        images, _, times = next(batches)
        if rank.device.type == "cpu":
            images.flatten()[:: _PAGE_BYTES // images.element_size()].sum()
        took_ns = time.monotonic_ns() - start_ns
        if times.serialised_ns < start_ns:
            times_ns.append(took_ns)
    del batches  # its process ends
    return float(np.median(times_ns)) / 1e6 if len(times_ns) >= LEAST_READY else None
