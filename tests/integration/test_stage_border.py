"""The border of a stage, where its outcome is recorded, with a real PerfDB."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.errors import CancelledError
from inferbench_tasks.interrupt import interruptible
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.invocation import Invocation, Order
from inferbench_tasks.submission.reader import read_submission_text

pytestmark = pytest.mark.integration

YAML = "name: quick\nmodel: {kind: zoo, name: digits}\nload: {arrivals: {kind: poisson, rate_rps: 50}, duration_s: 5}\n"


@pytest.mark.parametrize("moment", ["start_run", "stage_started", "tell"])
def test_a_signal_at_any_moment_of_a_stage_s_start_cancels_the_run(
    moment: str, perfdb: PerfDB, perfdb_uri: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that arrives between two lines of the start ends the run as cancelled, in that stage."""
    monkeypatch.setenv("INFERBENCH_PERFDB_URI", perfdb_uri)
    submission = read_submission_text(YAML, "quick.yaml", INSTALLED)
    node = next(node for node in compile_plan(submission).nodes if node.stage == "generate")
    invocation = Invocation.new(data_dir, "quick")
    invocation.place(Order(submission=submission, base_dir=str(data_dir), data_dir=str(data_dir)))
    owner = Invocation if moment == "tell" else PerfDB
    method = getattr(owner, moment)
    signals = [signal.SIGINT]

    def then_the_signal(*args: Any, **kwargs: Any) -> None:
        method(*args, **kwargs)
        if signals:
            os.kill(os.getpid(), signals.pop())

    monkeypatch.setattr(owner, moment, then_the_signal)
    with pytest.raises(CancelledError, match="SIGINT"), interruptible(True):
        execute_node(node, {}, invocation=invocation, base_dir=data_dir, data_dir=data_dir)
    run = perfdb.get_run(invocation.run_id(0))
    assert (run.status, str(run.verdict)) == ("cancelled", "cancelled: generate")
