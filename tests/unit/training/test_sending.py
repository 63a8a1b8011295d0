"""A batch's way from a loader process into its rank."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.training.items import ArrayItems, collate
from inferbench_tasks.training.making import USED
from inferbench_tasks.training.sending import HANDED, MADE, PARTS, Batch, Times, parts_ns

MS = 1_000_000


class Slow:
    """Images that take 20 ms to be serialised and 30 ms to be deserialised."""

    def __reduce__(self) -> tuple[Callable[[], Slow], tuple[()]]:
        time.sleep(0.020)
        return slowly, ()


class Pinned:
    """A tensor to torch's pinning, which has no page-locked memory without a GPU; 2 ms long."""

    pinned_ns = 0

    def pin_memory(self) -> Pinned:
        """The same, with the moment of its end."""
        time.sleep(0.002)
        self.pinned_ns = time.monotonic_ns()
        return self


def slowly() -> Slow:
    time.sleep(0.030)
    return Slow()


def test_serialising_and_deserialising_are_told_apart_from_waiting() -> None:
    """Whichever of its values takes long; what lies between both is the wait, and all of it is ``queued``."""
    for images, labels in ((Slow(), 1), (1, Slow())):
        sent = pickle.dumps(Batch((images, labels, Times([1, 2, 3, 4, 5, 6, time.monotonic_ns()]))))
        time.sleep(0.015)
        batch = pickle.loads(sent)
        assert type(batch) is Batch and type(batch[2]) is Times and batch[2][:6] == [1, 2, 3, 4, 5, 6]
        of = dict(zip(PARTS, parts_ns(batch[2]), strict=True))
        queued, wait, serialise, deserialise = (of[name] for name in HANDED)
        assert queued is not None and wait is not None and serialise is not None and deserialise is not None
        assert serialise >= 20 * MS and deserialise >= 30 * MS and wait >= 15 * MS
        assert queued == wait + serialise + deserialise


def test_a_batch_of_the_ranks_own_has_no_way() -> None:
    """It lies there until it is taken; neither is there any of what is not timed."""
    of = dict(zip(PARTS, parts_ns(Times([1, 2, 3, 4, 5, 6, time.monotonic_ns()])), strict=True))
    assert [of[name] for name in (*MADE, *USED)] == [1, 2, 3, 4, 5, 6] and (of["queued"] or -1) >= 0
    assert [of[name] for name in HANDED[1:]] == [None] * 3
    assert parts_ns(None) == [None] * len(PARTS)


def test_the_moments_of_a_real_loader_process_are_in_their_order(tmp_path: Path) -> None:
    """End, serialising from and to, deserialising from and to; it is deserialised when the rank asks, not before."""
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "x.npy", np.arange(48, dtype=np.float32).reshape(24, 1, 1, 2))
    np.save(tmp_path / "y.npy", np.arange(24))
    items = ArrayItems(str(tmp_path / "x.npy"), str(tmp_path / "y.npy"))
    items.timed = True
    batches = iter(torch.utils.data.DataLoader(items, 4, num_workers=1, collate_fn=collate, timeout=60))
    for number in range(6):
        asked_ns = time.monotonic_ns()
        images, labels, times = next(batches)
        assert labels.tolist() == list(range(4 * number, 4 * number + 4))
        assert images.flatten().tolist() == list(range(8 * number, 8 * number + 8))
        moments = times[len(MADE) + len(USED) :]
        assert len(moments) == 5 and all(one <= other for one, other in pairwise(moments))
        assert times.serialised_ns == moments[2] and asked_ns <= moments[3]
        parts = parts_ns(times)
        assert all(part is not None and part >= 0 for part in parts)
    assert next(batches, None) is None


def test_copying_into_page_locked_memory_is_a_part_of_receiving() -> None:
    """torch pins a batch's values in their order, the times last; a rank's own batch has no way to extend."""
    pin_memory = pytest.importorskip("torch.utils.data._utils.pin_memory").pin_memory
    own = Times([1, 2, 3, 4, None, None, 5])
    assert own.pin_memory() == [1, 2, 3, 4, None, None, 5]
    sent = pickle.loads(pickle.dumps(Batch((Pinned(), Pinned(), own))))
    before = list(sent[2])
    images, labels, times = pin_memory(sent)
    assert before[-1] < images.pinned_ns < labels.pinned_ns <= times[-1]
    assert type(times) is Times and times[:-1] == before[:-1]
