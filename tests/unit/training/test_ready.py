"""What a batch that lies ready takes."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.training import ready
from inferbench_tasks.training.items import collate
from inferbench_tasks.training.sending import Times


def rank(samples: int = 3) -> Any:
    """With a few images of 3 x 8 x 8 on a CPU."""
    torch = pytest.importorskip("torch")
    items = [(torch.full((3, 8, 8), float(at)), at) for at in range(samples)]
    job = SimpleNamespace(train=SimpleNamespace(batch_size=4))
    return SimpleNamespace(items=items, job=job, device=torch.device("cpu"))


@pytest.mark.parametrize("samples", [1, 64])
def test_batches_of_any_size_are_taken_from_a_real_loader_process(
    monkeypatch: pytest.MonkeyPatch, samples: int
) -> None:
    """Larger ones than the data set has samples, too; by its own stamps they lay ready, for it has time enough."""
    here, sleep = os.getpid(), time.sleep

    def sized(items: list[Any]) -> Any:
        assert len(items) == samples and os.getpid() != here, "raised in the rank, too"
        return collate(items)

    monkeypatch.setattr(ready, "collate", sized)
    monkeypatch.setattr(time, "sleep", lambda pause_s: sleep(max(pause_s, 0.05)))
    took_ms = ready.ready_ms(rank(), samples)
    assert took_ms is not None and took_ms > 0


def test_only_batches_that_lay_ready_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is always later than it was asked tells nothing."""
    monkeypatch.setattr(Times, "serialised_ns", property(lambda self: 1 << 62))
    assert ready.ready_ms(rank(), 4) is None
    monkeypatch.setattr(Times, "serialised_ns", property(lambda self: 0))
    took_ms = ready.ready_ms(rank(), 4)
    assert took_ms is not None and took_ms > 0
