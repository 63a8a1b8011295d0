"""The share of the client's ceiling that a load's chunks were."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from inferbench_tasks.loadgen.ceiling import Ceiling
from inferbench_tasks.loadgen.chunk_ceiling import chunk_ceiling_check
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.token_records import CHUNKS, TableWriter

S = 1_000_000_000


@pytest.mark.parametrize(("requests_per_s", "ok"), [(10.0, True), (9.9, False)])
def test_what_came_within_the_window_is_at_most_half_of_what_the_client_can_take(
    tmp_path: Path, requests_per_s: float, ok: bool
) -> None:
    """640 events in 2 s are 320 a second; 10 answers of 64 each a second are twice as many."""
    arrivals = np.concatenate([np.linspace(9 * S, 10 * S, 50), np.linspace(10 * S + 1, 12 * S, 640)])
    columns: dict[str, Any] = {name: np.zeros(len(arrivals), np.int64) for name in CHUNKS.names}
    with TableWriter(tmp_path / "c.parquet", CHUNKS) as writer:
        writer.add(*(columns | {"arrival_ns": arrivals.astype(np.int64)}).values())
    outcome = SimpleNamespace(
        streams=SimpleNamespace(chunks_path=tmp_path / "c.parquet"),
        measure_start_ns=10 * S,
        measure_end_ns=12 * S,
    )
    limit = SimpleNamespace(requests_per_s=requests_per_s, shards=1)
    check = chunk_ceiling_check(cast("Outcome", outcome), cast("Ceiling", limit))
    assert check.ok == ok and check.value == pytest.approx(320 / (64 * requests_per_s))
    assert "320 chunks/s came" in check.reason
