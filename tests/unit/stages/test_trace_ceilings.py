"""What the stage of traces tells of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.analysis import ceilings as measured
from inferbench_tasks.analysis.ceilings import Ceilings
from inferbench_tasks.monitors.environment import processor
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.trace import ceilings


def test_ceilings_are_of_this_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor is named, for it keeps them; one that can't be measured fails no trace, and says why."""
    asked = []

    def told(cache_dir: Path, processor: str) -> Ceilings:
        asked.append(processor)
        return Ceilings(100.0, 10.0, 5, 1)

    monkeypatch.setattr(measured, "measured_ceilings", told)
    ctx = Context(data_dir=tmp_path)
    assert ceilings(ctx, "cpu") == {"gflops": 100.0, "gb_s": 10.0, "array_bytes": 5, "cache_bytes": 1}
    assert asked == [processor()]

    def failing(cache_dir: Path, processor: str) -> Ceilings:
        raise OSError("no space left")

    monkeypatch.setattr(measured, "measured_ceilings", failing)
    assert ceilings(ctx, "cpu") == {"problem": "no space left"}
