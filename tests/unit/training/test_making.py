"""What a loader process uses while it makes a batch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.training import making
from inferbench_tasks.training.items import ArrayItems, collate
from inferbench_tasks.training.making import Use, since
from inferbench_tasks.training.sending import PARTS, parts_ns

MS = 1_000_000


class Waiting(ArrayItems):
    """Its items sleep for 10 ms each, and then compute for 10 ms of CPU time."""

    def transform(self, image: Any, index: int) -> Any:
        time.sleep(0.010)
        until_ns = time.thread_time_ns() + 10 * MS
        while time.thread_time_ns() < until_ns:
            pass
        return super().transform(image, index)


def loaded(folder: Path, workers: int) -> list[dict[str, int | None]]:
    """What is told of each of three batches of two items."""
    torch = pytest.importorskip("torch")
    np.save(folder / "x.npy", np.zeros((6, 1, 1, 2), np.float32))
    np.save(folder / "y.npy", np.arange(6))
    items = Waiting(str(folder / "x.npy"), str(folder / "y.npy"))
    items.timed = True
    loader = torch.utils.data.DataLoader(items, 2, num_workers=workers, collate_fn=collate)
    return [dict(zip(PARTS, parts_ns(batch[2]), strict=True)) for batch in loader]


def test_each_batch_tells_what_its_process_computed(tmp_path: Path) -> None:
    """20 ms of CPU time, whenever the batch was made, of at least 40 ms by the wall clock; sleep is neither computing
    nor a wait for a core.
    """
    for parts in loaded(tmp_path, 1):
        cpu_ns, wait_ns = parts["made_cpu"], parts["made_wait"]
        assert cpu_ns is not None and cpu_ns >= 20 * MS
        made_ns = sum(parts[name] or 0 for name in ("read", "decode", "transform", "collate"))
        assert made_ns >= 40 * MS and cpu_ns + (wait_ns or 0) <= made_ns - 20 * MS + 10 * MS


def test_a_rank_that_makes_its_batches_has_them_in_its_phase(tmp_path: Path) -> None:
    """There the phase *loading* tells CPU time and waits."""
    assert all(parts["made_cpu"] is None and parts["made_wait"] is None for parts in loaded(tmp_path, 0))


def test_a_kernel_without_statistics_tells_cpu_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is None, not 0."""
    monkeypatch.setattr(making, "used_here", lambda: Use(9, None))
    assert since(Use(5, None)) == [4, None] and since(None) == [None, None]
