"""A load without a submission: what is said of figures whose machine nobody watched."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import numpy as np
import pytest

from inferbench_tasks.loadgen.ceiling import Ceiling
from inferbench_tasks.loadgen.certificate import Certificate, OpenPlan, ShardUsage, certify
from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.outcome import Outcome
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.standalone import Result
from tests.samples import samples_table

S, MS = 1_000_000_000, 1_000_000


def _certificate(late_ms: int) -> Certificate:
    intended = np.arange(S, 11 * S, 10 * MS)
    table = samples_table(
        {
            "intended_ns": intended,
            "sent_ns": intended + late_ms * MS,
            "done_ns": intended + (late_ms + 5) * MS,
        }
    )
    usage = ShardUsage(shard=0, cpu_s=1.0, wall_s=10.0, max_stall_ns=0, stalls_ns=(), stalled_ns=0)
    return certify(table, OpenPlan(intended), [usage], measure_start_ns=S, measure_end_ns=11 * S)


def _result(late_ms: int) -> Result:
    applied = create_autospec(Applied, instance=True)
    applied.cancelled, applied.problem, applied.stopped_early = False, None, None
    outcome = Outcome(Path("samples.parquet"), S, 11 * S, 0, 1000, applied)
    unused: Any = create_autospec(LoadPlan, instance=True)
    limit: Any = create_autospec(Ceiling, instance=True)
    return Result(unused, outcome, None, _certificate(late_ms), limit, ())


def test_a_load_whose_machine_nobody_watched_is_never_valid() -> None:
    """The stimulus was right, and what else happened on the machines is not known: its figures are bounds."""
    result = _result(0)
    assert result.stimulus.valid
    assert result.verdict.kind == "disturbed"
    assert str(result.verdict).startswith("disturbed: nobody watched the machines")


@pytest.mark.parametrize("late_ms", [50])
def test_a_wrong_stimulus_is_invalid_whoever_watched(late_ms: int) -> None:
    """Late requests are no bound of anything: that is said, and not that nobody watched."""
    verdict = _result(late_ms).verdict
    assert verdict.kind == "invalid"
    assert "nobody watched" not in str(verdict)
